# Set-up, tests and checks on a machine that has only Python and make. `make help` lists the targets.

PYTHON ?= python3
# Workers, unless somebody asks for something else: a single test starts faster without them.
PYTEST_ARGS ?= -n auto --maxprocesses=4

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
NOTEBOOKS := $(wildcard notebooks/*.ipynb)

.PHONY: help lab test check bench bench-core dev clean
.SUFFIXES:
.DEFAULT_GOAL := help

help:
	@echo 'make lab     open JupyterLab on the notebooks (until there are some: run the quickstart)'
	@echo 'make test    run the whole test suite; PYTEST_ARGS="-k matmul" narrows it'
	@echo 'make check   lint, check the formatting and the types'
	@echo 'make bench   measure it beside other libraries; BENCH_ARGS="--quick" is luminal-lab bench --quick'
	@echo 'make bench-core   measure the building of graphs, beside JAX and tinygrad, and the passes'
	@echo 'make dev     only install what test and check need, for an editor to use'
	@echo 'make clean   remove .venv and everything else that make has made'
	@echo 'Each installs what it needs into .venv first. Another Python: make PYTHON=python3.12 ...'

ifeq ($(NOTEBOOKS),)
lab: .venv/.installed-core
	@echo 'The notebooks are still to come; this is the quickstart of README.md.'
	@$(BIN)/python tests/readme.py
else
lab: .venv/.installed-lab
	$(BIN)/jupyter lab notebooks
endif

test: .venv/.installed-test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# The variable keeps pyright's wrapper from asking the network for newer versions: ours is pinned.
check: .venv/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

bench: .venv/.installed-bench
	$(BIN)/luminal-lab bench $(BENCH_ARGS)

bench-core: .venv/.installed-bench
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/passes.py

dev: .venv/.installed-dev

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find luminal_lab tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# A stamp for each extra: installing happens again only when pyproject.toml has changed.
.venv/.installed-%: pyproject.toml | $(BIN)/pip
	@echo 'installing luminal-lab$(if $(filter-out core,$*),[$*]) into .venv ...'
	@$(PIP) install -e '.$(if $(filter-out core,$*),[$*])'
	@touch $@ $(if $(filter dev,$*),.venv/.installed-test)

$(BIN)/pip:
	@$(PYTHON) -c '' 2>/dev/null || { echo 'luminal_lab needs Python 3.11 or newer, and "$(PYTHON)" does' \
	  'not run. Name another one: make PYTHON=/path/to/python3 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'luminal_lab needs' \
	  'Python 3.11 or newer, and "$(PYTHON)" is' "$$($(PYTHON) --version 2>&1)." \
	  'Name another one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo '"$(PYTHON)" cannot make a' \
	  'virtual environment: its modules venv and ensurepip are missing.' \
	  'On Debian and Ubuntu: sudo apt install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv .venv
