# Set-up, tests and checks on a machine that has only Python and make. `make help` lists the targets.

PYTHON ?= python3
# Workers, unless somebody asks for something else: a single test starts faster without them. Each begins
# with a stretch of the files, so that what the tests of a file share is made once.
PYTEST_ARGS ?= -n auto --maxprocesses=4 --dist worksteal

BIN := .venv/bin
# The environment has a Node of its own.
NODE := PATH="$(CURDIR)/$(BIN):$$PATH"
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# What draws the shares of sweeps, as PYTEST_SEED="--seed 7"; another one each time, unless somebody says so.
PYTEST_SEED ?=
# What is printed of pyproject.toml, and how a Python finds this checkout.
ASKED := import tomllib; made = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*made["dependencies"], *made["optional-dependencies"]["bare"], sep="\n")
FOUND := import pathlib, sysconfig; \
  pathlib.Path(sysconfig.get_path("purelib"), "luminal_lab.pth").write_text("$(CURDIR)\n")
# The suite starts hundreds of Pythons: what one of them has compiled the others need not.
unexport PYTHONDONTWRITEBYTECODE
# What `make test` has checked first; FRONTEND= leaves it out, where that is done beside something else.
FRONTEND ?= frontend
# More words for JupyterLab, as LAB_ARGS="--no-browser --port 9000".
LAB_ARGS ?=
# More words for the fuzzer, as FUZZ_ARGS="--minutes 2 --checks cpu,torch".
FUZZ_ARGS ?=
# More words for `jupyter lite build`, as LITE_ARGS="--pyodide pyodide-314.0.6.tar.bz2".
LITE_ARGS ?=

.PHONY: help lab notebooks test test-bare test-long fuzz frontend frontend-types check lint types docs lite dist bench performance bench-core bench-viz dev other clean
.SUFFIXES:
.DEFAULT_GOAL := help

help:
	@echo 'make lab     open JupyterLab on the first notebook; LAB_ARGS="--no-browser --port 9000" is JupyterLab'"'"'s'
	@echo 'make test    run the whole test suite; PYTEST_ARGS="-k matmul" narrows it'
	@echo 'make test-bare   the suite with NumPy and pytest alone, in build/bare: what needs more is skipped'
	@echo 'make test-long   the sweeps, whole: make test runs a share of each that a seed draws'
	@echo 'make fuzz    draw programs for an hour and compare all ways to run them; FUZZ_ARGS="--minutes 2 --seed 7"'
	@echo 'make frontend   check, test and bundle what runs in the browser; a part of make test'
	@echo 'make notebooks   run all notebooks anew and store what they show; NOTEBOOKS="00_quickstart.ipynb" for some'
	@echo 'make check   lint, check the formatting and the types'
	@echo 'make docs    the pages and notebooks as a site, in build/docs; fails on a broken link or a warning'
	@echo 'make lite    the notebooks as a JupyterLite, in build/lite; see docs/where_it_opens.md'
	@echo 'make dist    wheel and sdist, in dist/, with the bundle and the notebooks in them, and their tests'
	@echo 'make bench   measure it beside other libraries; BENCH_ARGS="--quick" is luminal-lab bench --quick'
	@echo 'make performance   measure docs/performance.md anew, its tables and its chart'
	@echo 'make bench-core   measure the building of graphs, beside JAX and tinygrad, and the passes'
	@echo 'make bench-viz   measure what pictures cost, static and in a browser; it needs a Chromium on the PATH'
	@echo 'make other   another Python, in build/other, for the tests that ask two for the same'
	@echo 'make dev     only install what test and check need, for an editor to use'
	@echo 'make clean   remove .venv and everything else that make has made'
	@echo 'Each installs what it needs into .venv first. Another Python: make PYTHON=python3.12 ...'

lab: .venv/.installed-lab
	$(BIN)/luminal-lab lab -- $(LAB_ARGS)

notebooks: .venv/.installed-test
	$(BIN)/python -m tests.refresh_notebooks $(NOTEBOOKS)

# A part of the suite, which somebody asks for by PYTEST_ARGS, is Python's alone.
test: .venv/.installed-test $(if $(filter file,$(origin PYTEST_ARGS)),$(FRONTEND))
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(PYTEST_SEED)

# The packages are those of the core and of pyproject's extra `bare`, and ours is found by its path: nothing
# is built. In CI nothing may be missing; here it may.
test-bare: build/bare/.installed
	CI= build/bare/bin/python -m pytest $(PYTEST_ARGS) $(PYTEST_SEED)

build/bare/.installed: pyproject.toml
	$(PYTHON) -m venv --clear build/bare
	build/bare/bin/python -c '$(ASKED)' > build/bare/asked.txt
	build/bare/bin/python -m pip --quiet --disable-pip-version-check install -r build/bare/asked.txt
	build/bare/bin/python -c '$(FOUND)'
	@touch $@

# Hypothesis searches further there, too.
test-long: .venv/.installed-test
	$(BIN)/python -m pytest $(PYTEST_ARGS) --long -m sweep --hypothesis-profile=long

# What it finds is minimised and written to build/fuzz.
fuzz: .venv/.installed-test
	$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

frontend: frontend-types
	cd frontend && $(NODE) npx vitest run
	$(NODE) $(BIN)/python hatch_build.py

frontend-types: frontend/node_modules/.installed
	cd frontend && $(NODE) npx tsc --noEmit

check: lint frontend-types types

lint: .venv/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

# The variable keeps pyright's wrapper from asking the network for newer versions: ours is pinned.
types: .venv/.installed-dev
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

docs: .venv/.installed-docs
	rm -rf build/docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -j auto -d build/docs.trees -c docs . build/docs
	@echo 'open build/docs/index.html'

# From a clean folder: what JupyterLite remembers of a build is not always true of the next.
lite: .venv/.installed-lite
	rm -rf build/lite build/lite.from
	mkdir -p build/lite.from/files/notebooks
	cp notebooks/*.ipynb build/lite.from/files/notebooks
	cp -R docs README.md ARCHITECTURE.md build/lite.from/files
	cp luminal_lab/cli/jupyter/overrides.json build/lite.from
	$(BIN)/python -m hatchling build -t wheel -d build/lite.from/wheels
	cd build/lite.from && ../../$(BIN)/jupyter lite build --output-dir ../lite --piplite-wheels wheels/*.whl $(LITE_ARGS)
	@echo 'serve it: $(BIN)/python -m http.server --directory build/lite, and open lab/index.html?path=notebooks/00_quickstart.ipynb'

dist: .venv/.installed-test
	rm -rf dist
	$(NODE) $(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m pytest -n0 -q tests/test_dist.py

bench: .venv/.installed-bench
	$(BIN)/luminal-lab bench $(BENCH_ARGS)

# The elementwise functions are last: they need the page.
performance: .venv/.installed-bench
	$(BIN)/luminal-lab bench --page docs/performance.md $(BENCH_ARGS)
	$(BIN)/python -m luminal_lab.bench.studies.elementwise docs/performance.md

bench-core: .venv/.installed-bench
	DEV=NULL $(BIN)/python -m luminal_lab.bench.studies.core
	$(BIN)/python -m luminal_lab.bench.studies.passes

bench-viz: .venv/.installed-test
	$(BIN)/python -m luminal_lab.bench.studies.viz

dev: .venv/.installed-dev

# A test asks two Pythons for the same: the second one is the first of these that runs. Version managers
# have those that are not on the PATH beside the one that is.
other: OTHERS ?= python3.14 python3.13 python3.12 \
  $(wildcard $(shell $(PYTHON) -c 'import sys; print(sys.base_prefix)')/../3.1[2-9]*/bin/python3)
other:
	@for python in $(OTHERS); do \
	  $$python -c 'import venv' 2> /dev/null || continue; \
	  $$python -m venv build/other && exec build/other/bin/python -m pip --quiet --disable-pip-version-check install \
	    'numpy>=2' 'ml_dtypes>=0.5' 'typing_extensions>=4.12'; \
	done; echo 'none of these runs: $(OTHERS)' >&2; exit 1

clean:
	rm -rf .venv build dist frontend/node_modules luminal_lab/viz/static .pytest_cache .ruff_cache .hypothesis
	find luminal_lab tests -name __pycache__ -prune -exec rm -rf {} +

# A stamp for each extra: installing happens again only when pyproject.toml has changed.
.venv/.installed-%: pyproject.toml | $(BIN)/pip
	@echo 'installing luminal-lab$(if $(filter-out core,$*),[$*]) into .venv ...'
	@$(PIP) install -e '.$(if $(filter-out core,$*),[$*])' || { echo 'Not everything could be installed:' \
	  'is there a network, and room on the disk? The same make again goes on from there.' >&2; exit 1; }
	@touch $@ $(if $(filter dev,$*),.venv/.installed-test .venv/.installed-docs)

frontend/node_modules/.installed: frontend/package-lock.json | .venv/.installed-test
	@echo 'installing what the front end is checked with into frontend/node_modules ...'
	@cd frontend && $(NODE) npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

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
