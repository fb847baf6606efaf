# make demo · make test · make check · make bench · make test-pipelines: each makes .venv first, and works again without network.

GAME ?= no_thanks
WORKERS ?= 2
EXTRAS := train,onnx,sb3,render,dev
BIN := .venv/bin
STAMP := .venv/.installed

# The first Python of 3.11 or newer that really starts; `make PYTHON=/path/to/python` names another.
IS_NEW := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14; do \
	"$$p" $(IS_NEW) >/dev/null 2>&1 && { echo "$$p"; break; }; done)

# An activated environment or a foreign search path must not leak into ours.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH

.DEFAULT_GOAL := help
.PHONY: help install demo test test-pipelines check bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile

install: $(STAMP)  ## make .venv with the versions of constraints.txt

# Built without isolation: with its tools in .venv, installing again (a new pyproject.toml, say) needs no network
# unless a requirement changed.
$(STAMP): pyproject.toml constraints.txt
	@"$(PYTHON)" $(IS_NEW) >/dev/null 2>&1 || { \
		echo "make: no Python 3.11 or newer$(if $(PYTHON), at '$(PYTHON)', found); name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || echo "making .venv; the first time downloads a few hundred megabytes and takes minutes"
	@"$(PYTHON)" -m venv .venv
	@$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables
	@$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

demo: $(STAMP)  ## train a policy for minutes and measure it; GAME=no_thanks (default) or six_nimmt
	@test -f configs/demo/$(GAME).yaml || { \
		echo "make: no demo for GAME='$(GAME)'; there are: $(basename $(notdir $(wildcard configs/demo/*.yaml)))" >&2; exit 1; }
	$(BIN)/undertake train --config configs/demo/$(GAME).yaml --evaluate

test: $(STAMP)  ## run the test suite, without what is marked slow; WORKERS=2 processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-pipelines: $(STAMP)  ## test with each library that trains on the environments; PIPELINE=name for one of them
	$(BIN)/python tests/pipelines/run.py $(PIPELINE)

check: $(STAMP)  ## lint, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(STAMP)  ## measure the engine's speed on this machine
	$(BIN)/undertake bench

clean:  ## remove .venv, the pipelines' environments and the tools' caches
	rm -rf .venv .pipelines .mypy_cache .pytest_cache .ruff_cache .hypothesis
