# Every target works as the only command on a fresh clone. VENV=<folder> uses another virtual environment; DEPS=0 leaves
# its packages alone; JOBS=<n> bounds parallel work.
VENV ?= .venv
DEPS ?= 1
JOBS ?= $(shell nproc)
BUILD ?= build
PYTHON3 ?= python3
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
UNITY_ARGS ?=

PY := $(abspath $(VENV))/bin/python
BIN := $(abspath $(VENV))/bin
TREE := $(abspath $(BUILD))/python
RUN := XPU_OPS_BUILD_DIR=$(abspath $(BUILD)) PYTHONPATH=$(TREE)$(if $(PYTHONPATH),:$(PYTHONPATH)) $(PY)
DEPS_STAMP := $(VENV)/.xpu_ops-deps

.PHONY: all deps configure build demo test test-full test-robust test-cuda-build unity test-models models-table bench coverage wheel check-gpu docs tables lint format clean
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
$(DEPS_STAMP): requirements/build.txt requirements/dev.txt requirements/docs.txt requirements/models.txt | $(BIN)/python
	$(PY) -m pip install --disable-pip-version-check --quiet --progress-bar off -r requirements/dev.txt
	$(PY) -m pip install --disable-pip-version-check --quiet --progress-bar off --no-deps -r requirements/models.txt
	$(PY) -c 'import sysconfig, pathlib; pathlib.Path(sysconfig.get_path("purelib"), "xpu_ops_build_tree.pth").write_text("$(TREE)\n")'
	@touch $@

$(BUILD)/build.ninja: | deps
	PATH=$(BIN):$$PATH cmake -G Ninja -S . -B $(BUILD) -DPython_EXECUTABLE=$(PY) -DXPU_OPS_KERNELC_JOBS=$(JOBS) $(CMAKE_ARGS)

build: deps $(BUILD)/build.ninja
	PATH=$(BIN):$$PATH ninja -C $(BUILD) -j $(JOBS)

demo: build
	$(RUN) -m tools.demo $(DEMO_ARGS)

test: build
	$(RUN) -m pytest tests -n $(JOBS) $(PYTEST_ARGS)

# The whole suite, and what runs kernels once more with the launches of a GPU.
POLICY_TESTS := tests/aten tests/onednn tests/ops tests/runtime
test-full: build wheel
	XPU_OPS_TEST_LEVEL=full $(RUN) -m pytest tests -n $(JOBS) $(PYTEST_ARGS)
	XPU_OPS_POLICY=gpu $(RUN) -m pytest $(POLICY_TESTS) -n $(JOBS) $(PYTEST_ARGS)

# 100,000 hostile calls on both devices, and composites: see docs/reliability.md.
test-robust: build
	XPU_OPS_TEST_LEVEL=full $(RUN) -m pytest tests/robust $(PYTEST_ARGS)

# The wheel beside PyPI's torch, a CUDA build of several GB, in an environment of its own; on a machine without an NVIDIA GPU.
CUDA_VENV ?= .venv-cuda
test-cuda-build: wheel
	$(PYTHON3) -m venv $(CUDA_VENV)
	$(CUDA_VENV)/bin/pip install --disable-pip-version-check --quiet --progress-bar off 'torch===2.13.0' numpy dist/*.whl
	$(CUDA_VENV)/bin/pip install --disable-pip-version-check --quiet --progress-bar off --force-reinstall --no-deps dist/*.whl
	XPU_OPS_CUDA_TORCH_PYTHON=$(abspath $(CUDA_VENV))/bin/python $(RUN) -m pytest tests/runtime/test_cuda_build.py $(PYTEST_ARGS)

# All sources in units of another size than the build's, syntax only. UNITY_ARGS="--target _C": one target.
unity: build
	$(PY) -m tools.check_unity $(BUILD) --jobs $(JOBS) $(UNITY_ARGS)

# Every model family in every mode; `make test` runs a sample. models-table also times them and writes docs/models.md.
test-models: build
	XPU_OPS_TEST_LEVEL=full $(RUN) -m pytest tests/models -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

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

wheel: build
	rm -f dist/*.whl
	PATH=$(BIN):$$PATH $(PY) -m pip wheel --disable-pip-version-check --quiet --no-build-isolation --no-deps -w dist .
	@ls -l dist/*.whl | awk '{printf "wheel: %s %.1f MB\n", $$NF, $$5 / 1e6}'

# Compiles every module for Intel GPUs offline and validates its SPIR-V. Needs Debian's spirv-tools and intel-opencl-icd;
# proves that the code compiles, nothing more.
check-gpu: build
	$(PY) -m tools.check_gpu --modules $(BUILD)/python/xpu_ops/modules

# API pages from the docstrings, into the build folder.
docs: build
	$(RUN) -m tools.api_docs $(BUILD)/docs

# Tables in docs/ that come from code: fields of the manifest, environment variables.
tables: deps
	$(PY) -W ignore -m tools.doc_tables

CPP_FILES = $$(git ls-files '*.cpp' '*.hpp')
lint: deps
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)

format: deps
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

clean:
	rm -rf $(BUILD) dist
