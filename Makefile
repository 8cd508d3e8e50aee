# Every target works as the only command on a fresh clone. VENV=<folder> uses another virtual environment; DEPS=0 leaves
# its packages alone; JOBS=<n> bounds parallel work. TORCH=<version> and PYTHON=<program> work with another torch and Python,
# in an environment and a build folder of their own.
CELL := $(if $(TORCH),-torch$(TORCH))$(if $(PYTHON),-$(notdir $(PYTHON)))
VENV ?= .venv$(CELL)
DEPS ?= 1
JOBS ?= $(shell nproc)
BUILD ?= build$(CELL)
PYTHON3 ?= $(or $(PYTHON),python3)
# torchvision asks for one exact torch, so that pip finds the one that fits.
TORCH_REQUIREMENT := $(if $(TORCH),'torch==$(TORCH)' torchvision,-r requirements/torch.txt)
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
COMPILED_ARGS ?=
UNITY_ARGS ?=
SCORECARD_ARGS ?=
FIRST_CALLS_ARGS ?=

PY := $(abspath $(VENV))/bin/python
BIN := $(abspath $(VENV))/bin
TREE := $(abspath $(BUILD))/python
RUN := XPU_OPS_BUILD_DIR=$(abspath $(BUILD)) PYTHONPATH=$(TREE)$(if $(PYTHONPATH),:$(PYTHONPATH)) $(PY)
PIP_OPTIONS := --disable-pip-version-check --quiet --progress-bar off
PIP_INSTALL = $(PY) -m pip install $(PIP_OPTIONS)
DEPS_STAMP := $(VENV)/.xpu_ops-deps

.PHONY: all deps configure build demo test smoke matrix test-full test-robust test-sanitized test-cuda-build unity test-models test-compiled models-table bench coverage scorecard wheel dist check-dist first-calls release-part check-gpu gpu-deps gpu-ptx gpu-record gpu-plan gpu-pack gpu-replay gpu-bench gpu-report docs site lock tables golden lint format clean
all: build

# Installs again only where the pinned requirements changed.
ifeq ($(DEPS),1)
deps: $(DEPS_STAMP)
else
deps:
endif

$(BIN)/python:
	$(PYTHON3) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"xpu_ops: found Python {sys.version.split()[0]}; 3.11 or later is needed. Set PYTHON3 to one.")'
	$(PYTHON3) -m venv $(VENV)

# The models' requirements come without its dependencies (all are pinned): none of them may replace torch.
$(DEPS_STAMP): requirements/torch.txt requirements/build.txt requirements/dev.txt requirements/docs.txt requirements/models.txt \
  $(if $(filter 1,$(HASHES)),requirements/hashes.txt) | $(BIN)/python
ifeq ($(HASHES),1)
	$(PIP_INSTALL) --no-deps --require-hashes -r requirements/hashes.txt
else
	$(PIP_INSTALL) $(TORCH_REQUIREMENT) -r requirements/dev.txt
	$(PIP_INSTALL) --no-deps -r requirements/models.txt
endif
	$(PY) -c 'import sysconfig, pathlib; pathlib.Path(sysconfig.get_path("purelib"), "xpu_ops_build_tree.pth").write_text("$(TREE)\n")'
	@touch $@

$(BUILD)/build.ninja: | deps
	PATH=$(BIN):$$PATH cmake -G Ninja -S . -B $(BUILD) -DPython_EXECUTABLE=$(PY) -DXPU_OPS_KERNELC_JOBS=$(JOBS) $(CMAKE_ARGS)

build: deps $(BUILD)/build.ninja
	PATH=$(BIN):$$PATH ninja -C $(BUILD) -j $(JOBS)

demo: build
	$(RUN) -m tools.demo $(DEMO_ARGS)

# Of sweeps over operators and types every second case, which CI's time allows on slow processors; test-full has them all.
test: build
	XPU_OPS_TEST_SWEEPS=2 $(RUN) -m pytest tests -n $(JOBS) $(PYTEST_ARGS)

# A first look at another torch or Python: the demo, the doctor, and each 40th test of every folder.
smoke: build
	$(RUN) -m tools.demo $(DEMO_ARGS)
	$(RUN) -m xpu_ops.cli doctor
	XPU_OPS_TEST_EVERY=40 $(RUN) -m pytest tests -n $(JOBS) $(PYTEST_ARGS)

# The suite with each release of torch, as one table: whole with the releases of WHOLE, each 40th test with the others.
WHOLE ?=
matrix: deps
	$(PY) -m tools.matrix $(if $(WHOLE),--whole $(WHOLE))

# The whole suite, and the operators once more with the launches of a GPU, and with memory that the host does not reach.
POLICY_TESTS := tests/aten tests/inductor tests/jit tests/mkl tests/onednn tests/ops tests/runtime
test-full: build wheel unity
	XPU_OPS_TEST_LEVEL=full $(RUN) -m pytest tests -n $(JOBS) $(PYTEST_ARGS)
	XPU_OPS_POLICY=gpu $(RUN) -m pytest $(POLICY_TESTS) -n $(JOBS) $(PYTEST_ARGS)
	XPU_OPS_DISCRETE=1 $(RUN) -m pytest $(POLICY_TESTS) -n $(JOBS) $(PYTEST_ARGS)

# 100,000 hostile calls on both devices, and composites: see docs/reliability.md.
test-robust: build
	XPU_OPS_TEST_LEVEL=full $(RUN) -m pytest tests/robust -n $(JOBS) $(PYTEST_ARGS)

# Kernels and bindings with g++'s sanitizers, without oneMKL: SANITIZER=address (with undefined) or thread. Their runtime
# library has to be loaded first; it looks for libraries in the place of ours, so that LD_LIBRARY_PATH has to name pip's. Its
# reports go to the terminal: they end the process. The time of an import is that of the product alone.
SANITIZER ?= address
SANITIZER_LIBRARIES = $$($(CXX) -print-file-name=lib$(if $(filter thread,$(SANITIZER)),t,a)san.so):$$($(CXX) -print-file-name=libstdc++.so)
SANITIZED_TESTS ?= $(if $(filter thread,$(SANITIZER)),$(addprefix tests/,runtime/test_allocator.py runtime/test_graph.py \
  runtime/test_streams.py runtime/test_threads.py onednn/test_caches.py),tests/runtime tests/onednn)
test-sanitized:
	$(MAKE) build BUILD=build-$(SANITIZER) CMAKE_ARGS="--preset $(SANITIZER)"
	XPU_OPS_BUILD_DIR=$(abspath build-$(SANITIZER)) PYTHONPATH=$(abspath build-$(SANITIZER))/python LD_LIBRARY_PATH=$(abspath $(VENV))/lib \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:suppressions=$(abspath tests/support/ubsan.supp) TSAN_OPTIONS=ignore_noninstrumented_modules=1 \
	  LD_PRELOAD="$(SANITIZER_LIBRARIES)" $(PY) -m pytest --capture=sys $(SANITIZED_TESTS) \
	  --deselect tests/runtime/test_torch_xpu.py::test_import_time $(PYTEST_ARGS)

# The wheel beside PyPI's torch, a CUDA build of several GB, in an environment of its own; on a machine without an NVIDIA GPU.
CUDA_VENV ?= .venv-cuda$(CELL)
test-cuda-build: wheel
	$(PYTHON3) -m venv $(CUDA_VENV)
	$(CUDA_VENV)/bin/pip install $(PIP_OPTIONS) 'torch===$(or $(TORCH),2.13.0)' numpy $(WHEELS)
	$(CUDA_VENV)/bin/pip install $(PIP_OPTIONS) --force-reinstall --no-deps $(WHEELS)
	XPU_OPS_CUDA_TORCH_PYTHON=$(abspath $(CUDA_VENV))/bin/python $(RUN) -m pytest tests/runtime/test_cuda_build.py $(PYTEST_ARGS)

# The sources of a target, or of all, as one unit, syntax only: UNITY_ARGS="--target _C".
unity: build
	$(PY) -m tools.check_unity $(BUILD) $(UNITY_ARGS)

# Every model family in every mode; `make test` runs a sample. models-table also times them and writes docs/models.md.
test-models: build
	XPU_OPS_TEST_LEVEL=full $(RUN) -m pytest tests/models -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

# OpInfo through torch.compile, case by case in a process of its own: COMPILED_ARGS="--dtype bfloat16 --minutes 30 --log x.jsonl".
test-compiled: build
	XPU_OPS_BUILD_DIR=$(abspath $(BUILD)) PYTHONPATH=$(TREE):$(abspath tests) $(PY) -W ignore -m support.compiled_opinfo \
	  --log $(BUILD)/compiled_opinfo.jsonl $(COMPILED_ARGS)

models-table: build
	XPU_OPS_TEST_LEVEL=full XPU_OPS_MODELS_REPORT=docs/models.md $(RUN) -m pytest tests/models/test_models.py $(PYTEST_ARGS)

bench: build
	$(RUN) -m xpu_ops.bench $(BENCH_ARGS)

# The report as JSON and as a page, and README's table from the JSON. `xpu-ops coverage run` adds executed evidence to it.
coverage: build
	$(RUN) -m xpu_ops.coverage report --format json --out $(BUILD)/coverage/report.json
	$(RUN) -m xpu_ops.coverage html --json $(BUILD)/coverage/report.json --out $(BUILD)/coverage/report.html
	$(RUN) -m tools.readme_coverage $(BUILD)/coverage/report.json README.md
	$(RUN) -m xpu_ops.coverage report

# Suites that others wrote, fetched by pip and git: SCORECARD_ARGS="--only kornia --each 10".
scorecard: build
	$(RUN) -m tools.scorecard $(SCORECARD_ARGS)

# A wheel for the torch and Python of this build.
WHEELS = dist/xpu_ops-*+$$($(PY) -m tools.torch_release)-*.whl
PIP_WHEEL = PATH=$(BIN):$$PATH $(PY) -m pip wheel --disable-pip-version-check --quiet --no-build-isolation --no-deps \
  -C build-dir=$(abspath $(BUILD)) -C wheel.tags=$$($(PY) -m tools.torch_release --tags) -w dist .
wheel: build
	rm -rf $(WHEELS) $(BUILD)/releases
	$(RUN) -m tools.ship_recording $(BUILD)
	$(PIP_WHEEL)
	@ls -l $(WHEELS) | awk '{printf "wheel: %s %.1f MB\n", $$NF, $$5 / 1e6}'

# The wheel to upload: for this Python, every release of torch and every class of processors. The parts that are built per release
# come from builds of their own, in environments that hold torch without what it needs to run.
DIST_WHEEL = dist/xpu_ops-[0-9.]*-$$($(PY) -m tools.torch_release --tags).whl
dist: build
	rm -rf $(DIST_WHEEL) $(BUILD)/releases
	$(RUN) -m tools.ship_recording $(BUILD)
	$(PY) -m tools.kernelc.classes --worker $(BUILD)/kernelc --modules $(BUILD)/python/xpu_ops/modules --out $(BUILD)/releases/xpu_ops/modules -j $(JOBS)
	set -e; for torch in $$($(PY) -m tools.torch_release --others); do $(MAKE) release-part TORCH=$$torch INTO=$(abspath $(BUILD))/releases KERNELS=$(abspath $(BUILD))/python/xpu_ops/libxpu_ops_kernels.so; done
	XPU_OPS_EVERY_TORCH=1 $(PIP_WHEEL)
	rm -rf $(BUILD)/releases
	$(PY) -m tools.pack_wheel $(DIST_WHEEL)
	@ls -l $(DIST_WHEEL) | awk '{printf "wheel: %s %.1f MB\n", $$NF, $$5 / 1e6}'

# The sdist beside it, and both as a user meets them: metadata, tag, an installation per release of torch.
check-dist: deps
	$(PY) -c 'from scikit_build_core.build import build_sdist; print("sdist:", build_sdist("dist"))'
	$(PY) -m tools.check_dist $(if $(CHECK_TORCH),--torch $(CHECK_TORCH))

# A table of first calls: with the native modules of the build, of each class of processors, and with none.
first-calls: build
	$(PY) -m tools.kernelc.classes --worker $(BUILD)/kernelc --modules $(BUILD)/python/xpu_ops/modules --out $(BUILD)/classes -j $(JOBS)
	$(RUN) -m tools.first_calls --classes $(BUILD)/classes --links $(FIRST_CALLS_ARGS)

# The environment of `make TORCH=<version>` serves where there is one.
PART_VENV = $(if $(wildcard .venv$(CELL)/bin/python),.venv$(CELL),.venv-part$(CELL))
# A build folder of its own: it makes nothing but the extension.
release-part: BUILD := build-part$(CELL)
release-part:
	[ $(PART_VENV) != .venv-part$(CELL) ] || [ -e $(PART_VENV)/ready ] || { rm -rf $(PART_VENV) && $(PYTHON3) -m venv $(PART_VENV) && \
	  $(PART_VENV)/bin/python -m pip install $(PIP_OPTIONS) --no-deps torch===$(TORCH) && \
	  $(PART_VENV)/bin/python -m pip install $(PIP_OPTIONS) -r requirements/build.txt && touch $(PART_VENV)/ready; }
	$(MAKE) $(BUILD)/build.ninja BUILD=$(BUILD) VENV=$(PART_VENV) DEPS=0 CMAKE_ARGS="-DXPU_OPS_KERNELS=$(KERNELS)"
	PATH=$(abspath $(PART_VENV))/bin:$$PATH ninja -C $(BUILD) -j $(JOBS) _C
	PATH=$(abspath $(PART_VENV))/bin:$$PATH cmake --install $(BUILD) --component release --strip --prefix $(INTO)

# Compiles every module for Intel GPUs offline and validates its SPIR-V. Needs Debian's spirv-tools and intel-opencl-icd;
# proves that the code compiles, nothing more.
check-gpu: build
	$(PY) -m tools.check_gpu --modules $(BUILD)/python/xpu_ops/modules

# The kernels of a GPU on an NVIDIA one: docs/gpu.md. Here: PTX, launches of the suite (GPU_TESTS, GPU_ARGS), plans of the
# benchmark, all in one folder. There, in that folder: gpu-replay and gpu-bench. Here again: the report on what they left.
GPU := $(BUILD)/gpu
GPU_TESTS ?=
GPU_ARGS ?=
GPU_RESULTS ?= $(GPU)/payload/out
gpu-deps: build
	[ -d $(GPU)/cuda ] || $(PY) -m pip install $(PIP_OPTIONS) --no-deps --target $(GPU)/cuda -r requirements/gpu.txt
gpu-ptx: gpu-deps
	$(RUN) -m tools.gpu.ptx --build $(BUILD) --out $(GPU)/ptx --jit $(GPU)/recordings/jit --jobs $(JOBS) $(GPU_ARGS)
gpu-record: build
	$(RUN) -m tools.gpu.record --build $(BUILD) --out $(GPU)/recordings $(GPU_TESTS) $(GPU_ARGS)
gpu-plan: build
	$(RUN) -m tools.gpu.plan --build $(BUILD) --out $(GPU)/bench $(GPU_ARGS)
gpu-pack: build
	$(RUN) -m tools.gpu.types --build $(BUILD) --jit $(GPU)/recordings/jit --out $(GPU)/kernels.json
	$(RUN) -m tools.gpu.pack --work $(GPU) --out $(GPU)/payload
gpu-replay:
	bash $(GPU)/payload/run.sh assemble replay synccheck memcheck racecheck $(GPU_ARGS)
gpu-bench:
	bash $(GPU)/payload/run.sh bench $(GPU_ARGS)
gpu-report:
	$(RUN) -m tools.gpu.report $(GPU_RESULTS) --types $(GPU)/kernels.json --page docs/gpu.md

# API pages from the docstrings, into the build folder.
docs: build
	$(RUN) -m tools.api_docs $(BUILD)/docs

# The documents as a site in the build folder, with the API pages and the coverage report. Its generator has an environment of its own.
SITE_VENV ?= .venv-site
site: docs
	$(RUN) -m xpu_ops.coverage report --format json --out $(BUILD)/coverage/report.json
	$(RUN) -m xpu_ops.coverage html --json $(BUILD)/coverage/report.json --out $(BUILD)/coverage/report.html
	[ -x $(SITE_VENV)/bin/sphinx-build ] || { $(PYTHON3) -m venv $(SITE_VENV) && $(SITE_VENV)/bin/pip install $(PIP_OPTIONS) -r requirements/site.txt; }
	$(SITE_VENV)/bin/python -m tools.site $(BUILD)

# requirements/hashes.txt from the pinned lists and the indices that pip knows.
lock: deps
	$(PY) -m tools.lock_requirements 3.12 3.13

# Tables in docs/ that come from code: fields of the manifest, environment variables.
tables: deps
	$(PY) -W ignore -m tools.doc_tables

# The texts of generated kernels that tests compare: written anew, for a reviewer of the change to read.
golden: build
	GOLDEN=write $(RUN) -m pytest -q tests/block $(PYTEST_ARGS)

CPP_FILES = $$(git ls-files '*.cpp' '*.hpp')
lint: deps
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PY) -m tools.lint_collectives
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)

format: deps
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

clean:
	rm -rf $(BUILD) dist
