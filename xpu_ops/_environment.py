"""Every environment variable that the project reads: docs/environment.md, `xpu-ops doctor` and a test come from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """One variable. reader is the file that reads it, or the name of the program of others that does."""

    name: str
    default: str
    reader: str
    effect: str


# Read in a program that uses the device; `xpu-ops doctor` shows those that are set.
RUN_TIME = (
    Variable("XPU_OPS_DEVICE_MAPPING", "auto", "kernels/runtime/device/device.cpp",
             "which devices xpu:0, xpu:1, ... are: `auto` (GPUs, or the CPU where there is none), `gpu`, `cpu` or `explicit` (all)"),
    Variable("XPU_OPS_CPU_DEVICES", "1", "kernels/runtime/device/device.cpp",
             "how many indices name the CPU device, 1 to 16: each has its own streams, allocator and statistics, so that programs for several devices run anywhere"),
    Variable("XPU_OPS_CPU_MEMORY", "0.75", "kernels/runtime/device/device.cpp",
             "memory that the CPU device offers: bytes, such as `8G`, or a share below 1 of what the machine or its control group allows; several indices share it"),
    Variable("XPU_OPS_POLICY", "of the device", "kernels/runtime/device/policy.cpp",
             "`gpu` runs the plans of a GPU on the CPU device, so that its code is executed without one; `gpu,units=132,cache_mb=50,local_kb=48` those of a GPU of these sizes; `cpu,units=16` those of a CPU device of so many cores"),
    Variable("XPU_OPS_DISCRETE", "0", "kernels/runtime/device/policy.cpp",
             "`1` forbids the host to read device memory, as on a GPU with memory of its own; nothing runs inline"),
    Variable("XPU_OPS_EMULATE", "", "kernels/runtime/device/emulated.cpp",
             "`a770`, `b580` or `max1550`: the CPU device reports the properties of that GPU and refuses what it refuses; [testing](testing.md)"),
    Variable("XPU_OPS_INLINE", "1", "kernels/runtime/queue/small_work.cpp",
             "`0` launches small work instead of running it on the calling thread, and lets autograd use its own thread"),
    Variable("XPU_OPS_NATIVE_TASKS", "1", "kernels/runtime/queue/native_tasks.cpp",
             "`0` submits oneDNN's primitives on the CPU device as host tasks of SYCL and waits for each"),
    Variable("XPU_OPS_SYNC_ERRORS", "0", "kernels/runtime/device/device_error.cpp",
             "`1` waits after every launch, so that an error found by a kernel is raised by the call that made it"),
    Variable("XPU_OPS_POISON", "0", "kernels/runtime/memory/allocator.cpp",
             "`1` fills allocated memory with NaN (all bits set), so that a read of unwritten memory shows"),
    Variable("XPU_OPS_REDZONE", "0", "kernels/runtime/memory/redzone.cpp",
             "`1` surrounds allocated memory with known bytes; a write to them is an error at the next `torch.xpu.synchronize()`, and a line on stderr at the free"),
    Variable("XPU_OPS_VERBOSE", "0", "kernels/onednn/engine.cpp",
             "`1` prints a line for each oneDNN primitive: operation, implementation, shapes, cache hit or miss, time"),
    Variable("XPU_OPS_PRIMITIVE_CACHE_CAPACITY", "1024", "kernels/onednn/primitive_cache.cpp",
             "entries of the cache of oneDNN primitives"),
    Variable("XPU_OPS_WEIGHT_CACHE_BYTES", "4 GiB, at most a quarter of the device", "kernels/onednn/weight_cache.cpp",
             "bytes of packed weights that are kept"),
    Variable("XPU_OPS_MKL", "1", "kernels/mkl/library.cpp", "`0` leaves oneMKL out: FFT and factorisations fall back to the CPU"),
    Variable("XPU_OPS_PLAN_CACHE_CAPACITY", "1024", "kernels/mkl/plan_cache.cpp", "Fourier transforms kept ready; 0 keeps none"),
    Variable("XPU_OPS_CACHE_DIR", "`$XDG_CACHE_HOME/xpu_ops`", "kernels/runtime/module/module_cache.cpp",
             "folder of natively linked modules, of kernels compiled at run time and of recorded coverage"),
    Variable("XPU_OPS_LINK_AHEAD", "1", "kernels/runtime/module/link_ahead.cpp",
             "`0`: where a module has to be linked, no processes link the others of its family"),
    Variable("XPU_OPS_COMPILE_ALL", "0", "xpu_ops/upstream/inductor_operator.py",
             "`1` has `torch.compile` generate kernels for graphs of one operator, too"),
    Variable("XPU_OPS_JIT_TIMEOUT", "600", "xpu_ops/jit/worker.py",
             "seconds that the compiler of kernels from source may take for one module"),
    Variable("XPU_OPS_VLLM", "1", "xpu_ops/vllm/__init__.py", "`0`: vLLM runs as without this package; [vllm](vllm.md)"),
    Variable("XPU_OPS_VLLM_KERNELS", "0", "xpu_ops/_autoload.py",
             "`1`: `import vllm_xpu_kernels` resolves to `xpu_ops.vllm.kernels`; [vllm](vllm.md)"),
    Variable("XPU_OPS_TRITON_DUMP", "0", "xpu_ops/triton/compiler.py",
             "`1` prints the Triton IR and the SYCL source of each Triton kernel that is compiled"),
    Variable("XDG_CACHE_HOME", "`~/.cache`", "kernels/runtime/module/module_cache.cpp",
             "parent of the cache folder where XPU_OPS_CACHE_DIR is not set"),
    Variable("XPU_OPS_LIBRARY_DIR", "", "xpu_ops/_autoload.py", "folder to look for the runtime libraries in first"),
    Variable("PYTORCH_ENABLE_XPU_FALLBACK", "1", "bindings/runtime/fallback.cpp",
             "`0` raises NotImplementedError instead of running an operator without a kernel on the CPU"),
    Variable("PYTORCH_DEBUG_XPU_FALLBACK", "0", "bindings/runtime/fallback.cpp",
             "`1` warns at every fallback, with its operator; otherwise only the first of the process warns"),
    Variable("PYTORCH_XPU_FALLBACK_OP", "", "bindings/runtime/module.cpp",
             "comma-separated operators that run on the CPU although they have a kernel"),
    Variable("PYTORCH_ALLOC_CONF", "", "torch", "settings of the caching allocator, as for other devices"),
    Variable("TORCH_DEVICE_BACKEND_AUTOLOAD", "1", "torch",
             "`0`: `import torch` does not load xpu_ops; `import xpu_ops` does"),
    Variable("OCL_ICD_FILENAMES", "pip's CPU driver", "the OpenCL loader",
             "the OpenCL drivers; at import Intel's own is put before those that are listed, each of which takes its time to start (pocl and NVIDIA's 0.5 s together)"),
    Variable("CL_CONFIG_CPU_FORCE_MAX_MEM_ALLOC_SIZE", "the host's memory", "the OpenCL CPU driver",
             "the largest block; the driver's own limit is half of the memory. Set at import where it is unset, with a unit"),
    Variable("DPCPP_CPU_SCHEDULE", "from 8 processors on affinity", "the OpenCL CPU driver",
             "how work-groups are spread over threads: `affinity`, as in the last launch of the kernel; `dynamic`, the driver's own; `static`. Set at import where it is unset"),
    Variable("ONEAPI_DEVICE_SELECTOR", "", "SYCL", "which devices SYCL sees, such as `opencl:cpu` or `level_zero:gpu`"),
    Variable("CL_CONFIG_CPU_TARGET_ARCH", "of the processor", "kernels/runtime/module/target_key.hpp",
             "target of the CPU driver, as [Processors](#processors) lists them; while building, what native modules are made for"),
    Variable("VLLM_PLUGINS", "all", "vLLM", "the plugins that vLLM loads; without `xpu_ops` among them it does not run on xpu"),
    Variable("VLLM_USE_AOT_COMPILE", "0", "vLLM", "whether vLLM stores compiled graphs; the plugin sets `0` where it is unset"),
    Variable("VLLM_WORKER_MULTIPROC_METHOD", "spawn", "vLLM", "how vLLM starts workers; the plugin sets `spawn` where it is unset"),
    Variable("OMP_WAIT_POLICY", "", "bindings/runtime/openmp.cpp",
             "where it or GOMP_SPINCOUNT is set, the waiting threads of torch CPU are left as they are"),
    Variable("GOMP_SPINCOUNT", "", "bindings/runtime/openmp.cpp", "see OMP_WAIT_POLICY"),
    Variable("OMP_NUM_THREADS", "cores", "OpenMP", "threads of torch CPU: fallbacks and the CPU side of the benchmark"),
    Variable("TORCHELASTIC_RESTART_COUNT", "", "xpu_ops/upstream/distributed.py",
             "set by torchrun: how often it has started the program again"),
    Variable("TORCHELASTIC_USE_AGENT_STORE", "", "xpu_ops/upstream/distributed.py",
             "set by torchrun: whether its store outlives the processes"),
    Variable("GROUP_WORLD_SIZE", "", "xpu_ops/upstream/distributed.py", "set by torchrun: how many of it there are"),
)  # fmt: skip

BUILD = (
    Variable("XPU_OPS_KERNELC_CACHE", "", "tools/kernelc/__main__.py",
             "folder of compiled modules, shared between build folders"),
    Variable("XPU_OPS_FAMILIES", "all", "tools/codegen/__main__.py",
             "comma-separated families to build; the operators of the others fall back. For work on one family"),
    Variable("XPU_OPS_TORCH", "2.13", "tools/torch_release.py",
             "release of torch that `pip install .` builds for where none is installed, such as `2.13`"),
    Variable("XPU_OPS_EVERY_TORCH", "", "tools/torch_release.py",
             "`1`: the wheel holds the parts of every release of torch; `make dist` sets it"),
    Variable("CMAKE_CXX_COMPILER_LAUNCHER", "", "CMake", "`ccache` is honoured at the first configuration"),
)  # fmt: skip

TESTS = (
    Variable("XPU_OPS_BUILD_DIR", "`build`", "tests/build/conftest.py", "the build folder to test"),
    Variable("XPU_OPS_TEST_LEVEL", "fast", "tests/conftest.py", "`full` runs the slow tests, too"),
    Variable("XPU_OPS_CUDA_TORCH_PYTHON", "", "tests/runtime/conftest.py",
             "the Python of an environment with a CUDA build of torch and xpu_ops: its tests are collected"),
    Variable("XPU_OPS_TEST_EVERY", "1", "tests/conftest.py", "`n` runs each n-th of the tests"),
    Variable("XPU_OPS_TEST_SWEEPS", "1", "tests/conftest.py", "`n` runs an n-th of the cases of tests with many; `make test` runs half"),
    Variable("GOLDEN", "unset", "tests/support/golden.py", "`write` takes over the texts of kernels, as `make golden` does"),
    Variable("XPU_OPS_TEST_EXAMPLES", "20", "tests/conftest.py", "examples that Hypothesis draws for each test"),
    Variable("HYPOTHESIS_PROFILE", "ci", "tests/conftest.py",
             "`random` draws anew each time (100 examples), `quick` draws few"),
    Variable("XPU_OPS_MODELS_REPORT", "", "tests/models/conftest.py", "file that gets the table of models"),
    Variable("XPU_OPS_TEST_STARTED", "", "tests/coverage/fixtures/hangs.py", "set by a test for the test it starts"),
    Variable("XPU_OPS_COVERAGE_PIPES", "", "xpu_ops/coverage/runner.py", "set by `xpu-ops coverage run` for its workers"),
    Variable("XPU_OPS_COVERAGE_IMPORTS", "", "xpu_ops/coverage/runner.py", "the same"),
    Variable("TRANSFORMERS_TEST_DEVICE", "xpu with `pytest --xpu`", "transformers", "the device of its tests"),
    Variable("DIFFUSERS_TEST_DEVICE", "xpu with `pytest --xpu`", "diffusers", "the device of its tests"),
    Variable("PYTORCH_TESTING_DEVICE_ONLY_FOR", "xpu with `pytest --xpu`", "torch", "the device of tests that torch instantiates"),
    Variable("TORCHINDUCTOR_CACHE_DIR", "a new folder in tests/inductor", "tests/inductor/conftest.py",
             "folder of the graphs that torch.compile keeps"),
    Variable("HF_HUB_OFFLINE", "1 in tests and benchmark", "transformers", "models are made from configurations alone"),
    Variable("TRANSFORMERS_VERBOSITY", "error in tests", "transformers", "log level"),
    Variable("DIFFUSERS_VERBOSITY", "error in tests", "diffusers", "log level"),
)  # fmt: skip


def table() -> str:
    """The Markdown tables of docs/environment.md."""
    parts = []
    for title, variables in (("At run time", RUN_TIME), ("Building", BUILD), ("Tests and coverage", TESTS)):
        lines = [f"### {title}", "", "| variable | default | read by | effect |", "|---|---|---|---|"]
        for v in variables:
            reader = f"`{v.reader}`" if "/" in v.reader else v.reader
            lines.append(f"| `{v.name}` | {v.default} | {reader} | {v.effect} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
