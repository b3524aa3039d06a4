# Every command of the project. `make` alone lists them.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
SOURCES := wire broker operator spark cli
CODE := $(SOURCES) demo bench images tests
KERNEL := $(wildcard setup.py wire/iggy_wire/*kernel*.py wire/iggy_wire/*.pyx wire/iggy_wire/*.pxd wire/iggy_wire/_xxh3*)

# The environment belongs to one Python: another one rebuilds it. Steps leave a stamp and are done once.
PYTHON_COMMAND := $(shell .ci/machine --python)
PYTHON_TAG := $(if $(PYTHON_COMMAND),$(shell $(PYTHON_COMMAND) -c 'import platform, sys; print("%d.%d" % sys.version_info[:2] + "-" + platform.machine())'))
MADE := $(VENV)/.made-by-python-$(or $(PYTHON_TAG),missing)
FILLED := $(VENV)/.filled
INSTALLED := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Native and JVM logs that concern no user: a loopback host name, a missing native Hadoop library.
export SPARK_LOCAL_IP ?= 127.0.0.1

.PHONY: charts help images setup cluster-up cluster-down e2e older-sparks sim faults demo test check format kernel lock wheel interop bench reference docs clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(MADE):
	@.ci/machine
	@rm -rf $(VENV)
	@echo "making $(VENV) with Python $(PYTHON_TAG)"
	@$(PYTHON_COMMAND) -m venv $(VENV)
	@touch $@

# setuptools comes first, alone: what has no wheel is then built with it and not with a download of its own.
$(FILLED): requirements.lock $(MADE)
	@echo "installing what requirements.lock names"
	@sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock > $(VENV)/setuptools.lock
	@$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r $(VENV)/setuptools.lock
	@$(BIN)/python -m pip install --quiet --require-hashes --no-deps --no-build-isolation -r requirements.lock
	@touch $@

$(INSTALLED): pyproject.toml $(KERNEL) $(FILLED)
	@echo "installing IggyKube from this folder"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
# Spark looks for sources by listing the folders of the path, which an editable install alone is not on.
	@$(BIN)/python -c 'import pathlib, sys, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "iggykube-sources.pth").write_text("".join(f"{pathlib.Path(root).absolute()}\n" for root in sys.argv[1:]))' $(SOURCES)
	@$(BIN)/python -c 'from iggy_wire import kernel; kernel.COMPILED or print("note: no C compiler was found, so the kernel runs as plain Python: correct, but slower")'
	@touch $@

setup: $(INSTALLED) ## make .venv with everything, done by the other commands when needed

demo: $(INSTALLED) ## the main job: broker, flights, Spark, Parquet, lag 0
	@.ci/machine
	@$(BIN)/python demo/run.py $(ARGS)

# All of them wait for brokers, Spark and databases half of the time: two lanes, one of them Spark's.
test: $(INSTALLED) ## all tests that need no cluster (ARGS="tests/wire -k batch" for some)
	@$(BIN)/python -m pytest $(or $(ARGS),-p tests.support.lanes --numprocesses 2)

sim: $(INSTALLED) ## simulated brokers with faults: SEED=7 replays one, SEEDS=1000 runs many
	@PYTHONHASHSEED=0 PYTHONPATH=tests/support $(BIN)/python -m simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100)) $(ARGS)

faults: $(INSTALLED) ## faults on real brokers, the long ones too (ARGS="-k kills" for some)
	@$(BIN)/python -m pytest tests/faults tests/spark -m "faults or long" $(ARGS)

# Those of the image's variants, each in an environment made of what its image is made of, with its jars.
build/spark-%/.made: images/spark-%/pyspark.lock images/spark-%/pom.xml images/spark-%/jars.sha256 requirements.lock pyproject.toml
	@command -v mvn >/dev/null || { echo "Maven is missing (Debian's package maven): it fetches jars for Spark" >&2; exit 1; }
	@echo "making build/spark-$*"
	@rm -rf $(@D)
	@$(PYTHON_COMMAND) -m venv $(@D)
	@$(PYTHON_COMMAND) images/steps/locked.py packages setuptools wheel > $(@D)/tools.lock
	@$(PYTHON_COMMAND) images/steps/locked.py extra spark instead $< > $(@D)/libraries.lock
	@{ $(@D)/bin/python -m pip install --quiet --require-hashes --no-deps -r $(@D)/tools.lock \
	    && $(@D)/bin/python -m pip install --quiet --require-hashes --no-deps --no-build-isolation -r $(@D)/libraries.lock \
	    && cd images/spark-$* && ../steps/fetch-jars "$(CURDIR)/$(@D)/jars"; } \
	    || { echo "build/spark-$* was not made: are the package index and Maven's repository in reach?" >&2; exit 1; }
	@IGGYKUBE_PURE=1 $(@D)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

older-sparks: $(INSTALLED) build/spark-4.1/.made build/spark-4.2/.made ## the data source on the Sparks of the image's variants (ARGS="-k 4.2" for one)
	@.ci/machine
	@$(BIN)/python -m pytest tests/spark/test_spark_older.py -m older_spark $(ARGS)

cluster-up: $(INSTALLED) ## a real Kubernetes on this machine for tests, as root; what runs is left alone
	@.ci/machine --e2e
	@$(BIN)/python tests/e2e/cluster up

cluster-down: $(INSTALLED) ## end that Kubernetes and remove all that it left
	@$(BIN)/python tests/e2e/cluster down

# SCENARIOS="tests/e2e/test_drain.py …" are some of them.
# E2E_BACKEND: `own` is the cluster above, `kind` one that kind makes, `current` that of the current kubeconfig.
e2e: export E2E_BACKEND ?= own
e2e: SCENARIOS ?= tests/e2e
e2e: $(INSTALLED) ## everything in a real Kubernetes (E2E_BACKEND=own|kind|current, ARGS="-k drain")
	@if [ "$$E2E_BACKEND" = own ]; then $(MAKE) cluster-up; fi
	@$(MAKE) images ARGS=
	@$(BIN)/python -m pytest $(SCENARIOS) -m e2e $(ARGS)

check: $(INSTALLED) ## format, lint, types, layers, and whether requirements.lock has all that pyproject.toml wants
	@$(BIN)/python -m pip check --quiet
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/mypy
	@PYTHONPATH=wire:broker:operator:spark:cli $(BIN)/lint-imports --no-cache

format: $(INSTALLED) ## put the code in form
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix-only $(CODE)

kernel: $(FILLED) ## compile the kernel in place again
	@$(BIN)/python setup.py --quiet build_ext --inplace --force

lock: $(FILLED) ## resolve requirements.lock anew, for all Pythons and machines, without addresses
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --annotation-style line --no-header --no-emit-index-url --no-emit-find-links \
	    --all-extras --group dev pyproject.toml --output-file requirements.lock

images: ## build the container images that changed, as archives (ARGS=--help tells more)
	@.ci/machine
	@PYTHONPATH=images $(PYTHON_COMMAND) -m image_builder $(ARGS)

wheel: $(INSTALLED) ## build wheel and sdist into dist/
	@rm -rf dist build/bdist.* build/lib* build/temp.*
	@$(BIN)/python -m build --no-isolation --outdir dist .

interop: $(INSTALLED) ## other people's clients and tests against our broker (ARGS="python -k Topic" for some)
	@PYTHONPATH=tests/support $(BIN)/python tests/suites/run.py $(ARGS)

bench: $(INSTALLED) ## one table of ratios and CPU per GB, against a bare server
	@$(BIN)/python bench/run.py $(ARGS)

reference: $(INSTALLED) ## write docs/reference from the schemas and the code
	@PYTHONPATH=tests/support $(BIN)/python tests/support/reference_pages.py

charts: $(INSTALLED) ## bring up to date what the charts hold of crds/ and of their own values
	@PYTHONPATH=tests/support $(BIN)/python tests/support/chart_files.py

docs: $(INSTALLED) ## check links, settings and samples in the documents
	@$(BIN)/python -m pytest tests/tidy tests/samples

clean: ## remove the environment, build results and the demo's data
	@rm -rf $(VENV) build dist .iggykube/demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find wire broker operator spark cli demo bench tests -name __pycache__ -prune -exec rm -rf {} +
	@find wire -name '*.so' -delete
	@rm -rf *.egg-info wire/*.egg-info
