# `make test` and `make demo` do all their set-up: a virtual environment, its packages and the
# offline Intel toolchain. The second time they find it done. `make help` says what is needed.

VENV ?= .venv
PIP_ARGS ?=
PYTEST_ARGS ?=
TARGET ?= bmg-g31

PY := $(VENV)/bin/python
STAMP := $(VENV)/.packages
TOOLCHAIN_STAMP := $(VENV)/.toolchain
PASSES := build/passes
PASSES_STAMP := $(PASSES)/.built
PASSES_SOURCES := $(shell find passes -type f -not -path 'passes/test/*') CMakeLists.txt
PINS := pyproject.toml constraints.txt CMakeLists.txt

# PEP 538/540: the same text on every machine.
export PYTHONUTF8 := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup gxx passes passes-reference test lint types unit coverage demo doctor clean

help:
	@echo "make demo    one kernel from baseline to result, for TARGET=$(TARGET)"
	@echo "make test    every check: ruff, pyright, pytest with the real compiler"
	@echo "make coverage   the tests, with what they reach, worker processes included: slower"
	@echo "make setup   only the set-up, in VENV=$(VENV)"
	@echo "make passes  the MLIR passes, in $(PASSES) (part of setup); make passes-reference: their docs"
	@echo "make doctor  what this machine offers and lacks"
	@echo
	@echo "Needed: Linux x86-64, make, Python 3.10, 3.11 or 3.12 with venv, and g++."
	@echo "On Debian the rest comes by itself, as root or with sudo g++ too; elsewhere ocloc must be"
	@echo "on PATH (make doctor)."

setup: gxx $(TOOLCHAIN_STAMP) $(PASSES_STAMP)
	@:

passes: $(PASSES_STAMP)
	@:

# Triton's IR is read by the passes, so nothing works without them: first of all the compiler.
gxx:
	@if [ ! -e $(PASSES)/XeSmithPasses.so ] && ! command -v "$${CXX:-g++}" >/dev/null; then \
	  as=; [ "$$(id -u)" = 0 ] || as="sudo -n"; \
	  if [ -z "$$CXX" ] && command -v apt-get >/dev/null && $$as true 2>/dev/null; then \
	    echo "installing g++, which builds the MLIR passes"; \
	    $$as apt-get update -qq && $$as env DEBIAN_FRONTEND=noninteractive \
	      apt-get install -y -qq --no-install-recommends g++ >/dev/null; \
	  fi; \
	  command -v "$${CXX:-g++}" >/dev/null || { \
	    echo "error: no $${CXX:-g++} on this machine: it builds the MLIR passes, which read Triton's IR" >&2; \
	    echo "  remedy: sudo apt-get install g++, or your distribution's g++ and its path in CXX" >&2; \
	    exit 3; \
	  }; \
	fi

$(PASSES_STAMP): $(STAMP) $(PASSES_SOURCES) | gxx
	@echo "building the MLIR passes in $(PASSES) (the first time: about a minute)"
	@PATH="$(abspath $(VENV))/bin:$$PATH"; \
	  cmake -S . -B $(PASSES) --log-level=WARNING \
	    -DCMAKE_PREFIX_PATH="$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	    >/dev/null && \
	  cmake --build $(PASSES) -j2 >/dev/null
	@touch $@

passes-reference: $(PASSES_STAMP)
	@$(VENV)/bin/xesmith passes doc >docs/passes-reference.md

# A version manager's shim may be on PATH for a Python that does not run: try each.
$(STAMP): $(PINS)
	@set -e; base=; \
	for name in $(PYTHON) python3.11 python3.12 python3.10 python3; do \
	  if "$$name" -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' >/dev/null 2>&1; \
	  then base=$$name; break; fi; \
	done; \
	if [ -z "$$base" ]; then \
	  echo "error: no Python 3.10, 3.11 or 3.12 with venv on this machine" >&2; \
	  echo "  remedy: on Debian 12 and Ubuntu 22.04 or 24.04: sudo apt-get install python3-venv;" >&2; \
	  echo "          elsewhere install Python 3.12 and say make PYTHON=/its/path" >&2; exit 3; \
	fi; \
	if ! $(PY) -c '' >/dev/null 2>&1; then echo "making $(VENV) with $$base"; "$$base" -m venv --clear $(VENV); fi
	@echo "installing packages into $(VENV) (the first time: some minutes)"
	@$(PY) -m pip install -qq $(PIP_ARGS) -c constraints.txt -e '.[dev,xpu,llm,mcp]'
	@$(PY) -m xesmith.toolchain.python_env
	@touch $@

$(TOOLCHAIN_STAMP): $(STAMP) third_party/toolchains.yaml
	@$(VENV)/bin/xesmith toolchain install xpu
	@touch $@

test: gxx lint types unit

lint: $(TOOLCHAIN_STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(TOOLCHAIN_STAMP)
	$(VENV)/bin/pyright --pythonpath $(PY)

unit: $(TOOLCHAIN_STAMP) $(PASSES_STAMP)
	$(PY) -m pytest -n 2 $(PYTEST_ARGS)

# Not part of `make test`: tracing, above all of what runs in worker processes, doubles its time.
coverage: $(TOOLCHAIN_STAMP) $(PASSES_STAMP)
	$(PY) -m pytest -n 2 --cov --cov-config=tests/coverage.ini --cov-report=term $(PYTEST_ARGS)

demo: gxx $(TOOLCHAIN_STAMP) $(PASSES_STAMP)
	$(VENV)/bin/xesmith optimize bench/problems/gemm/kernel.py \
	  --spec bench/problems/gemm/spec.yaml --target $(TARGET)

doctor: $(STAMP)
	@$(VENV)/bin/xesmith doctor

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .coverage .coverage.* htmlcov
