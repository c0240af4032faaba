# `make` alone lists the verbs; the text behind ## is what it prints.
# demo and test set everything up themselves, in .venv, from Python >= 3.10 with pip; test needs Java 17.

.DEFAULT_GOAL := help
SHELL := /bin/bash
# Another folder for the environment: PARTAGE_VENV=... (tools/setup.sh reads it too).
BIN := $(or $(PARTAGE_VENV),.venv)/bin
PYTEST := $(BIN)/python -m pytest
# Processes that `make test` runs its tests in. Tests that share a Spark or a broker stay together,
# and wait for it more than they work: one process more than two cores.
JOBS ?= 3
# More arguments for a verb: make test ARGS="-k range -x"
ARGS ?=
OUT ?= demo-out
# The version that `make same` compares with, a tag or a commit: the last one before the renames (tag before-house).
BASE ?= f79072d13ec0e1c9661bf2b89ad649ff3132cc34

# The tests start hundreds of interpreters. An image with PYTHONDONTWRITEBYTECODE=1 would make each
# of them compile Numba, pandas and Partage again.
test unit parity fuzz soak: export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test unit coverage lint types bench docs parity fuzz soak drift same jvm jar wheel release lock clean java demo-env test-env soak-env unit-env coverage-env docs-env release-env

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: demo-env ## replay the recorded history of a real cluster, open the report (OUT=demo-out)
	@$(BIN)/partage demo --out $(OUT) $(ARGS)

test: test-env ## a sample of every tier: unit, property, parity, fuzz, pipeline, cli, browser, architecture, doctests
	@$(PYTEST) --numprocesses $(JOBS) --dist loadscope --no-loadscope-reorder $(ARGS)

unit: unit-env ## unit and property tests, without Java, Spark and brokers
	@$(PYTEST) tests/unit tests/property --numprocesses $(JOBS) --dist loadscope $(ARGS)

coverage: coverage-env ## branch coverage of the unit tier, kernels interpreted
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest tests/unit tests/property $(ARGS)
	@$(BIN)/python -m coverage report --skip-covered

lint: test-env ## ruff: all rules, and the format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: test-env ## mypy --strict on src
	@$(BIN)/mypy

bench: test-env ## the benchmarks; prints figures, judges nothing
	@for one in benchmarks/bench_*.py; do $(BIN)/python "$$one" $(ARGS) || exit 1; done

docs: docs-env ## build the documentation into site/, warnings are errors
	@$(BIN)/python -m sphinx --jobs auto --fail-on-warning --keep-going --quiet docs site && echo "site/index.html"

parity: test-env ## heavy: 100,000 problems per strategy against Kafka's own classes
	@PARTAGE_PARITY_N=$${PARTAGE_PARITY_N:-100000} PARTAGE_HYPOTHESIS=full $(PYTEST) tests -m parity $(ARGS)

fuzz: test-env ## heavy: 1,000,000 damaged inputs per reader
	@PARTAGE_FUZZ_N=$${PARTAGE_FUZZ_N:-1000000} PARTAGE_HYPOTHESIS=full $(PYTEST) tests -m fuzz $(ARGS)

soak: soak-env ## heavy: large histories again and again, and living groups through 1,000 rebalances
	@PARTAGE_SOAK=1 $(PYTEST) tests -m soak $(ARGS)

drift: test-env ## compare another Kafka release with ours: records, layouts, classes, parity (VERSION=4.4.0)
	@tools/jvm.sh && $(BIN)/python tools/drift.py $(or $(VERSION),$(error VERSION=4.4.0 is missing)) $(ARGS)

same: test-env ## heavy: compare this checkout with another version on equal inputs (BASE=tag)
	@$(BIN)/python tools/same $(BASE) $(ARGS)

jvm: java ## fetch Kafka's jars and compile the parity programs into jvm/target
	@tools/jvm.sh && echo "jvm/target/classes jvm/target/lib"

jar: java ## build the assignors for Kafka brokers and Java consumers: jvm/partage-assignors/target
	@tools/jar.sh

wheel: demo-env ## build the wheel into dist/ (without Java)
	@$(BIN)/uv build --quiet --wheel --out-dir dist && ls dist/*.whl

release: release-env ## build sdist and wheel, check their metadata, and list their dependencies (SBOM)
	@rm -rf dist && $(BIN)/uv build --quiet --out-dir dist
	@$(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	@$(BIN)/uv export --frozen --quiet --extra all --format cyclonedx1.5 --output-file dist/partage.cdx.json >/dev/null
	@ls dist/*

lock: test-env ## lock the dependencies anew (ARGS=--upgrade for newer ones)
	@$(BIN)/python tools/lock.py $(ARGS)

clean: ## remove what the verbs made, the environment too
	rm -rf .venv dist build site docs/api docs/metrics.md demo-out jvm/target jvm/partage-assignors/target .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Java first: one sentence now is better than one after half a gigabyte.
java:
	@tools/check-java.sh

# The demo replays a small recording with the local engine: it needs neither Java nor Spark.
demo-env:
	@tools/setup.sh demo

test-env: java
	@tools/setup.sh test

soak-env: java
	@tools/setup.sh soak

unit-env:
	@tools/setup.sh unit

coverage-env:
	@tools/setup.sh coverage

docs-env:
	@tools/setup.sh docs

release-env:
	@tools/setup.sh release
