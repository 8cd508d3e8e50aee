"""The suites, where they come from, and the reason of each failure that has one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """One suite. folder is below the folder of suites; modes are the options of `pytest --xpu` that it runs with."""

    name: str
    version: str
    folder: str
    source: str  # `pypi` for an sdist, a repository, or nothing where the packages are all
    about: str
    commit: str = ""
    tests: tuple[str, ...] = ()
    module: str = ""  # instead of pytest: a module of tools.scorecard with its options
    modes: tuple[str, ...] = ("--xpu", "--xpu-strict")
    packages: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()  # empty files that the sdist lacks
    environment: dict[str, str] = field(default_factory=dict)
    minutes: float = 10.0
    # Part of a test's id, or of its error, to the reason.
    reasons: tuple[tuple[str, str], ...] = ()


CAPPED = (
    ("level1/100_HingeLoss", "the caps make two sizes differ that the problem needs equal; the CPU's side raises"),
)

SUITES = (
    Suite(
        "accelerate", "1.15.0", "accelerate-1.15.0", "pypi",
        "Hugging Face's launcher, hooks, offloading and data loaders. No hub: tests that load a model from it fail on the CPU, too.",
        tests=("tests/test_accelerator.py", "tests/test_hooks.py", "tests/test_modeling_utils.py", "tests/test_big_modeling.py",
               "tests/test_optimizer.py", "tests/test_scheduler.py", "tests/test_data_loader.py", "tests/test_kwargs_handlers.py",
               "tests/test_memory_utils.py", "tests/test_utils.py", "tests/test_offload.py"),
        packages=("parameterized", "psutil"),
        environment={"HF_HUB_OFFLINE": "1"},
        reasons=(("test_free_memory_dereferences_prepared_components",
                  "the test compares the free memory of the whole machine, which other programs use, too"),
                 ("No such file or directory: 'accelerate'", "the run's PATH lacked the program; it has it since, and the test passes alone")),
    ),
    Suite(
        "peft", "0.21.2", "peft-0.21.2", "pypi",
        "Adapters on small models that the tests define: the files that load none from the hub. The sdist lacks `tests/__init__.py`, which its relative imports need.",
        adds=("tests/__init__.py",),
        tests=("tests/test_adamss_asa.py", "tests/test_bdlora.py", "tests/test_bufferdict.py", "tests/test_deft.py", "tests/test_incremental_pca.py",
               "tests/test_lora_ga.py", "tests/test_lorafa.py", "tests/test_loraplus.py", "tests/test_osf.py", "tests/test_pvera.py",
               "tests/test_randlora.py", "tests/test_riemannian_lora.py", "tests/test_shira.py", "tests/test_unilora.py", "tests/test_vblora.py",
               "tests/test_velora.py", "tests/test_vera.py",
               "-o", "addopts="),  # its own ask for pytest-cov
        reasons=(("Couldn't reach", "the test loads data from the hub"),),
        packages=("peft==0.21.2", "parameterized", "psutil", "datasets", "scikit-learn", "dill", "multiprocess", "xxhash", "pyarrow", "pandas",
                  "python-dateutil", "six"),
        environment={"HF_HUB_OFFLINE": "1"},
    ),
    Suite(
        "optimum-quanto", "0.2.7", "optimum_quanto-0.2.7", "pypi",
        "Quantised layers and tensors. Of the environment it asks nothing: its conftest.py takes xpu where `torch.xpu.is_available()`, beside the CPU.",
        tests=("test/library", "test/nn", "test/quantize", "test/tensor"),
        environment={"HF_HUB_OFFLINE": "1"},
        reasons=(("tinygemm", "packs pairs of nibbles in CUDA's order, the first one high; torch's operator for XPU has it low, as torchao packs for it"),),
    ),
    Suite(
        "kornia", "0.9.0rc1", "kornia", "https://github.com/kornia/kornia",
        "Computer vision, f32. It lists its devices without xpu: `tools/scorecard/part.py` adds it to the list.",
        commit="b4f5a78a1",
        tests=("tests/color", "tests/filters", "tests/losses", "tests/morphology", "tests/enhance", "tests/geometry/transform",
               "--device", "xpu", "--dtype", "float32"),
        packages=("kornia_rs",),
    ),
    Suite(
        "array-api-tests", "2026-04-03", "array-api-tests", "https://github.com/data-apis/array-api-tests",
        "The array API's conformance suite on torch through array_api_compat, with xpu as torch's default device.",
        commit="55fcc60",
        tests=("array_api_tests", "--max-examples", "20", "--disable-deadline", "--derandomize", "--default-device", "xpu"),
        packages=("array-api-compat", "ndindex", "pytest-json-report", "pytest-metadata"),
        environment={"ARRAY_API_TESTS_MODULE": "array_api_compat.torch"},
        modes=("--xpu",),
    ),
    Suite(
        "KernelBench, eager", "423217d", "KernelBench", "https://github.com/ScalingIntelligence/KernelBench",
        "Levels 1 to 3, sizes capped by `tools/scorecard/kernelbench.py`; the ratio is torch's CPU time to ours, eager.",
        commit="423217d", module="kernelbench", packages=("einops",), modes=("",), minutes=45, reasons=CAPPED,
    ),
    Suite(
        "KernelBench, compiled", "423217d", "KernelBench", "https://github.com/ScalingIntelligence/KernelBench",
        "The same through `torch.compile`; torch's CPU stays eager.",
        commit="423217d", module="kernelbench --compiled", packages=("einops",), modes=("",), minutes=45, reasons=CAPPED,
    ),
    Suite(
        "KernelBench, both compiled", "423217d", "KernelBench", "https://github.com/ScalingIntelligence/KernelBench",
        "The same with torch's CPU through `torch.compile`, too, by its C++ backend with its defaults: the ratio is its time to that of compiled xpu.",
        commit="423217d", module="kernelbench --compiled --cpu-compiled", packages=("einops",), modes=("",), minutes=45, reasons=CAPPED,
    ),
    Suite(
        "operator inputs", "8a3d43c", "torchdynamo", "https://github.com/pytorch/torchdynamo",
        "The operator calls that PyTorch's benchmarks traced from 155 trainings of Hugging Face, timm and TorchBench models: 18,208 distinct "
        "operators with shapes, element types and strides. Values are held against the CPU's in the same type and in a wider one; large "
        "rows run with a smaller leading dimension, and one row of each kind is timed. Skipped: cuDNN's recurrent layers, and rows that "
        "no smaller form was found for.",
        commit="8a3d43c", module="opinputs --elements 500000", modes=("",), minutes=90,
    ),
    Suite(
        "TorchCTS", "0.4.1", "torchcts", "",
        "A conformance suite for PyTorch's devices, level 8, with its broadest manifest. What fails on torch's CPU, too, or is skipped there, is apart.",
        module="cts", modes=("",), minutes=240, packages=("torchcts==0.4.1", "psutil", "expecttest", "mpmath<2"),
        reasons=(
            ("test_native_quantization", "quantized tensors are those of the CPU: the device has none"),
            ("guard_alloc", "torch.xpu has no `guard_allocator_enabled`; the manifest claims it for every device"),
            ("test_stride_and_storage_offset_metadata", "wants the strides of a view with gaps from its copy on the CPU, which is dense"),
            ("_batch_norm_no_update", "torch's composite calls the CPU's kernel on every device"),
            ("batch_norm", "torch's decomposition has statistics in 16 bits, and none in evaluation, on the CPU alone: elsewhere float32, one per channel"),
            ("embedding_bag", "torch's meta function leaves the results for the backward pass empty on the CPU alone"),
            ("test_public_vander", "gives what torch's CPU gives, an error of autograd; the test returns before it compares there"),
            ("chebyshev_polynomial", "of NaN torch's CPU returns a variable that its loop, left at once, has not set; NaN here"),
            ("gelu", "of infinity torch's CPU gives NaN where it works in vectors; infinity here"),
            ("soft_margin_loss", "gives what torch's CPU gives; held against its own reference on devices alone"),
            ("_segment_reduce", "gives what torch's CPU gives; held against its own reference on devices alone"),
            ("bce_with_logits_stable", "gives what torch's CPU gives; held against its own reference on devices alone"),
            ("-sgn-", "of complex NaN torch's CPU sets both parts to NaN outside its vectors, here as in them"),
            ("log1p", "of an infinite imaginary part torch's CPU gives NaN where 1 + x rounds: it divides; the logarithm here, as c10's for SYCL"),
            ("rmatmul", "torch's CPU multiplies by a complex 1, which makes infinities NaN; they stay here"),
            ("tensordot", "torch's CPU multiplies by a complex 1, which makes infinities NaN; they stay here"),
            ("linalg.vander-", "torch's CPU multiplies by a complex 1, which makes infinities NaN; they stay here"),
            ("grid_sample-", "torch's CPU computes places and weights in 16 bits; in 32 here"),
            ("grid_sampler_", "torch's CPU computes places and weights in 16 bits; in 32 here"),
            ("[sgn", "of complex infinities torch's CPU sets both parts to NaN at the end of a tensor, one in its vectors, as here"),
            ("test_strided_extrema_preserve_first", "of equal zeros torch's CPU takes the first at the end of a tensor, the second in its vectors, as here"),
            ("convolution", "padding times an infinite weight: oneDNN leaves it out, torch's CPU counts it where it takes another path"),
            ("cumprod", "complex infinities, held against its own reference on devices alone"),
            ("[logit", "16 bits are clamped in float32, where 1 - eps is not 1; torch's CPU gives infinity"),
            ("legendre_polynomial", "of NaN torch's CPU returns a variable that its loop, left at once, has not set; NaN here"),
            ("lanczos", "zeros of the filter are those of torch's CPU; held against its own reference on devices alone"),
            ("pairwise_distance", "torch's CPU multiplies by a complex 1, which makes infinities NaN; they stay here"),
            ("binary_cross_entropy", "torch's CPU leaves an empty `out` empty, or reduces that; the loss here"),
            ("test_igamma_tiny", "gives what torch's CPU gives; the test returns before it compares there"),
            ("test_im2col_col2im_out_input_alias", "gives wrong values on torch's CPU, too; the test returns before it compares there"),
            ("test_kaiser_large", "torch's CPU refuses complex types, too; the test returns before it calls it there"),
            ("test_ldexp_wide", "gives what torch's CPU gives; the test returns before it compares there"),
            ("test_r086_grid_sample", "gives what torch's CPU gives; the test does not compare there"),
            ("test_low_level_numeric", "linspace of bins is rounded once here, torch's CPU rounds the step, too"),
            ("sparse_csr_tensor.crow_col_value", "torch's composite takes the CPU where no device is given"),
            ("test_near_singular", "the matrix loses all digits that float32 has; the residual is that of torch's CPU"),
            ("_nested_sum_backward", "known gap: the private gradient of nested sums"),
            ("view_as_real", "the suite reads a lazily conjugated result without resolving it; the CPU's is one, too"),
            ("[mode-", "the place of any of the equal values: torch's CPU sorts by an unstable sort"),
            ("matrix_exp", "right here; torch's CPU gives NaN for 16 bits"),
            ("test_sparse_low_level_compressed_generic", "reads indices that nothing wrote, which ends the process in torch's CPU; they raise here"),
            ("test_op_errors[narrow_copy", "torch's OpInfo wants the CPU's message of the CPU alone, elsewhere that of narrow, as here"),
            ("OPINFO_TARGET_SAMPLE_TRANSPORT", "meets the error of an index that an earlier node left; passes alone"),
            ("test_op_errors", "an index out of range raises at the next synchronisation, as on a GPU"),
            ("scaled_dot_product_attention", "torch's CPU drops NaN and infinities of a row in its blocks; they stay here"),
            ("nn.functional.conv", "padding times an infinite weight: oneDNN leaves it out, torch's CPU counts it where it takes another path"),
            ("layer_norm", "torch's reference has statistics in 16 bits on the CPU alone: float32 elsewhere"),
            ("full.names_out", "looks for an operator of that name that torch has not"),
            ("test_sdpa_nested_forward", "torch's own Python takes tensors of this shape for batches of heads, on every device"),
            ("Inf sign mismatch", "the sign of a complex infinity that no rule settles"),
            ("Permanent contract reference", "held against its own reference on devices alone"),
        ),
    ),
)  # fmt: skip
