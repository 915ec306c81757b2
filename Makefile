# Every target sets up what it needs first; with nothing changed that takes no time. All that is
# required is make and a Python 3.11 or newer with venv. Packages come from wherever pip is
# configured to look, with the versions and hashes in requirements/.
#
#   make PYTHON=python3.12 test     another interpreter; .venv is made anew if its version differs
#   make test ARGS="-k closure -x"  more arguments for the tool behind a target

VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS   ?=
MINUTES ?= 10

# Unless told otherwise: the environment that is there, else the first Python that is new enough.
ifndef PYTHON
PYTHON := $(shell for python in $(BIN)/python python3 python3.13 python3.12 python3.11; do \
    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
    then echo $$python; break; fi; done)
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:  # pip must not run twice at once in one environment
.PHONY: help install demo test fuzz cluster-test frame-test wheel-test versions lint format bench lock clean python

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMPS)/dev  ## make .venv with all that running, testing and linting need

demo: $(STAMPS)/runtime  ## run the demonstration
	$(BIN)/python examples/demo.py $(ARGS)

# Each worker that runs a test on Spark starts a JVM of 2 GB, hence no more than four.
test: $(STAMPS)/dev  ## run all tests, on all cores, with the same seeds each time
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal $(ARGS)

# Thresholds are drawn too, so that a handful of facts takes every path (tests/fuzz.py).
fuzz: $(STAMPS)/dev  ## compare random programs on all engines for MINUTES
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

# Not in random order: the tests that kill processes come last. Ends after half an hour at most.
cluster-test: $(STAMPS)/dev  ## run recursive programs on a small cluster while processes die
	CALADAN_CLUSTER=1 $(BIN)/python -m pytest tests/cluster -p no:randomly \
	    --session-timeout=1800 $(ARGS)

# Programs of many rounds take long as DataFrames; `make test` has them evaluated in a task.
frame-test: $(STAMPS)/dev  ## run all programs of the corpus as DataFrames
	CALADAN_FRAME=1 $(BIN)/python -m pytest tests/programs -k spark $(ARGS)

# Where `make test` borrows the dependencies from .venv, this installs them from the index.
wheel-test: $(STAMPS)/dev  ## install the wheel into an empty environment and take the README's tour
	$(BIN)/python -m tests.wheel $(ARGS)

# Each pair has an environment of its own, in build/versions; those that cannot be had are skipped.
versions: $(STAMPS)/venv  ## run a part of the tests with other versions of Python and PySpark
	$(BIN)/python -m tests.versions $(ARGS)

lint: $(STAMPS)/dev  ## check style, formatting and types
	$(BIN)/ruff check $(ARGS)
	$(BIN)/ruff format --check $(ARGS)
	$(BIN)/basedpyright

format: $(STAMPS)/dev  ## format the code and fix what can be fixed by a tool
	$(BIN)/ruff check --fix-only $(ARGS)
	$(BIN)/ruff format $(ARGS)

bench: $(STAMPS)/dev  ## run the benchmarks
	$(BIN)/python -m bench $(ARGS)

# Universal: one lock serves every platform and every Python from 3.11 on. The header would name
# the command line, the index URL the registry in use here; neither belongs in the repository.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-header --no-emit-index-url $(ARGS)

lock: $(STAMPS)/venv  ## compute requirements/*.lock anew (ARGS=--upgrade for newer versions)
	$(PIP) install uv
	$(COMPILE) pyproject.toml --extra spark --output-file requirements/runtime.lock
	$(COMPILE) pyproject.toml --extra spark --extra java --constraints requirements/runtime.lock \
	    --output-file requirements/java.lock
	$(COMPILE) --group build --output-file requirements/build.lock
	$(COMPILE) --group dev --constraints requirements/runtime.lock \
	    --constraints requirements/build.lock --output-file requirements/dev.lock

clean:  ## remove .venv and everything that was made here
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db
	find src tests examples bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --- set-up ---------------------------------------------------------------------------------------
# A stamp is a file that says "this step was done"; a step is done again when a lock is newer.

$(STAMPS)/dev: $(STAMPS)/runtime requirements/dev.lock
	$(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@

# Whatever has to be built (PySpark, this package) is built with tools from the lock, hence
# --no-build-isolation. The package itself is installed editable and without its dependencies,
# which the lock has brought. Java is looked for by the same code that looks for it at run time.
$(STAMPS)/runtime: $(STAMPS)/venv pyproject.toml $(addprefix requirements/,build.lock runtime.lock java.lock)
	$(PIP) install --require-hashes -r requirements/build.lock
	$(PIP) install --require-hashes --no-build-isolation --use-pep517 -r requirements/runtime.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m caladan.engines.spark.session.java 2>/dev/null || { \
	    echo "no Java 17 or newer on this machine: installing one into $(VENV)"; \
	    $(PIP) install --require-hashes --no-build-isolation -r requirements/java.lock && \
	    $(BIN)/python -m caladan.engines.spark.session.java; }
	@$(BIN)/caladan warmup  # else the first run to need a kernel would wait for its compilation
	@touch $@

# Only a different version of Python makes an existing environment worthless.
$(STAMPS)/venv: python
	@version='import sys; print(sys.version)'; \
	if [ -x $(BIN)/python ] && \
	   [ "$$($(BIN)/python -c "$$version")" = "$$($(PYTHON) -c "$$version")" ]; then \
	    mkdir -p $(STAMPS); [ -e $@ ] || touch $@; \
	else \
	    echo "making $(VENV) with $$($(PYTHON) --version)"; \
	    $(PYTHON) -m venv --clear $(VENV) && mkdir -p $(STAMPS) && touch $@; \
	fi

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "Caladan needs Python 3.11 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
