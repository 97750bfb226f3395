PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-all lint types clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.core ## train cross-entropy and BARE on half-wrong digits; a table and curves
	$(BIN)/labelnoise demo

test: lint types ## the default suite, with lint and types
	$(BIN)/python -m pytest -n auto -rs -m "not long and not data"

test-all: $(VENV)/.dev ## what is long or needs more: real data in LABELNOISE_DATA, killed processes
	$(BIN)/python -m pytest -n auto -rs -m "long or data"

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.dev
	$(BIN)/mypy

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) -e '.[dev]'
	@touch $@

clean: ## remove what was installed and made
	rm -rf $(VENV) demo runs .mypy_cache .pytest_cache .ruff_cache .hypothesis
