# Every target makes what it needs: the environment, then system packages (with apt, through sudo where not root).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STATE  ?= state
ARGS   ?=

.PHONY: help run dashboards docs images image-arguments test test-gpu soak bench chaos lint type generate check-generated lock format wheels clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

run: $(VENV)/.run ## exporter and alerter on this machine: real GPUs, or a replay where there is none
	@exec $(BIN)/dutycycle up --state-dir $(STATE) $(ARGS)

dashboards: $(VENV)/.dashboards ## dutycycle-dashboards, in an environment of its own
	@$(VENV)/dashboards/bin/dutycycle-dashboards --help

docs: $(VENV)/.docs ## the documents as a site, in build/docs (ARGS="serve" to read it while writing)
	@NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs $(if $(ARGS),$(ARGS),build) --strict

# What goes into an image is what was committed last, as far as anyone can tell from it.
IMAGE_ARGUMENTS = VERSION=$(shell sed -nE 's/^__version__ = "(.*)"/\1/p' alerter/dutycycle_alerter/__init__.py) \
	REVISION=$(or $(shell git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null),unknown) \
	SOURCE_DATE_EPOCH=$(or $(shell git log -1 --format=%ct 2>/dev/null),1580601600)
ENGINE ?= docker

images: ## both container images, by docker (ENGINE=podman for another; ARGS= for more arguments of its build)
	@command -v $(ENGINE) >/dev/null || { echo "no $(ENGINE) here: docs/images.md says what else builds them" >&2; exit 1; }
	for part in exporter alerter; do DOCKER_BUILDKIT=1 $(ENGINE) build --file $$part/Dockerfile $(addprefix --build-arg ,$(IMAGE_ARGUMENTS)) \
		--tag dutycycle-$$part:$(patsubst VERSION=%,%,$(filter VERSION=%,$(IMAGE_ARGUMENTS))) $(ARGS) .; done

image-arguments: # what they are told of the commit
	@printf '%s\n' $(IMAGE_ARGUMENTS)

test: $(VENV)/.test ## every test (ARGS="-k word" for some)
	$(BIN)/pytest -n 5 $(ARGS)

test-gpu: $(VENV)/.dev ## tests that need a real NVIDIA GPU
	$(BIN)/pytest -m gpu $(ARGS)

soak: $(VENV)/.test ## what takes hours: full-length scenarios, 200,000 scrapes, 24 accelerated hours, 100,000 examples for every parser (ARGS=--resume goes on)
	$(BIN)/pytest -m soak --timeout=0 -s $(ARGS)

# A program of benchmarks/ is a file, or a package, that can be run; 77 is its word for "not on this machine".
BENCHMARKS = $(shell grep -l '^if __name__' benchmarks/*.py | sed 's,/,.,;s,.py$$,,') benchmarks.box benchmarks.real benchmarks.load \
	$(addprefix benchmarks.gpu.,measure overhead nvml_calls compare_nvidia_smi)
bench: BENCH = $(if $(filter command environment,$(origin ARGS)),$(ARGS),--quick)
bench: $(VENV)/.test ## quick benchmarks (ARGS= for full length, hours; its figures go to benchmarks/RESULTS.md)
	@echo "benchmarks $(if $(BENCH),with $(BENCH); at full length: make bench ARGS=,at full length)"
	@failed=; absent=; for program in $(BENCHMARKS); do echo "== $$program $(BENCH)"; \
		$(BIN)/python -m $$program $(BENCH) || { status=$$?; \
		if [ $$status -eq 77 ]; then absent="$$absent $$program"; else failed="$$failed $$program($$status)"; fi; }; done; \
	[ -z "$$absent" ] || echo "not measured, as this machine does not let them:$$absent"; \
	[ -z "$$failed" ] || { echo "failed or fell short:$$failed" >&2; exit 1; }

chaos: $(VENV)/.test ## an hour of accelerated time full of faults against the promises of the design (ARGS=--quick for minutes)
	$(BIN)/python -m benchmarks.chaos $(ARGS)

lint: $(VENV)/.dev ## ruff, formatting, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(VENV)/.dev ## rewrite the source as ruff formats it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

type: $(VENV)/.dev ## strict mypy; of tests and benchmarks, that calls fit
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

generate: $(VENV)/.dev ## documents made from the code
	$(BIN)/python -m tools.generate

check-generated: $(VENV)/.dev ## fail where a generated file or the lock is out of date
	$(BIN)/python -m tools.generate --check
	@cp requirements.lock $(VENV)/lock.check
	$(BIN)/uv pip compile $(LOCK_FLAGS) $(LOCK_MAIN) --quiet --output-file $(VENV)/lock.check pyproject.toml
	diff requirements.lock $(VENV)/lock.check
	@cp requirements-dashboards.lock $(VENV)/lock-dashboards.check
	$(BIN)/uv pip compile $(LOCK_FLAGS) $(LOCK_DASHBOARDS) --quiet --output-file $(VENV)/lock-dashboards.check pyproject.toml
	diff requirements-dashboards.lock $(VENV)/lock-dashboards.check
	@cp requirements-docs.lock $(VENV)/lock-docs.check
	$(BIN)/uv pip compile $(LOCK_FLAGS) $(LOCK_DOCS) --quiet --output-file $(VENV)/lock-docs.check pyproject.toml
	diff requirements-docs.lock $(VENV)/lock-docs.check

LOCK_FLAGS := --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate
# The client of Grafana replaces urllib3 wherever it is installed: it has an environment, and a lock, of its own.
LOCK_MAIN := --extra exporter --extra alerter --extra apprise --group dev
LOCK_DASHBOARDS := --extra dashboards --group build
LOCK_DOCS := --group docs

lock: $(VENV)/.dev ## renew the locks (ARGS=--upgrade for newer versions)
	$(BIN)/uv pip compile $(LOCK_FLAGS) $(LOCK_MAIN) $(ARGS) --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile $(LOCK_FLAGS) $(LOCK_DASHBOARDS) $(ARGS) --output-file requirements-dashboards.lock pyproject.toml
	$(BIN)/uv pip compile $(LOCK_FLAGS) $(LOCK_DOCS) $(ARGS) --output-file requirements-docs.lock pyproject.toml

wheels: $(VENV)/.run ## what nodes without a package index install, in build/wheels (PYTHON=python3.12 where theirs is another)
	$(BIN)/python -m tools.gather_wheels $(or $(ARGS),exporter alerter) --to build/wheels --python $(PYTHON)

clean: ## remove what make made, but not the store in state/
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.run: requirements.lock pyproject.toml tools/setup.sh
	@tools/setup.sh venv $(PYTHON) $(VENV)
	@touch $@

$(VENV)/.dev: $(VENV)/.run

$(VENV)/.dashboards: $(VENV)/.run requirements-dashboards.lock pyproject.toml tools/setup.sh
	@tools/setup.sh dashboards $(PYTHON) $(VENV)
	@touch $@

$(VENV)/.docs: $(VENV)/.run requirements-docs.lock tools/setup.sh
	@tools/setup.sh docs $(PYTHON) $(VENV)
	@touch $@

$(VENV)/.test: $(VENV)/.dev $(VENV)/.dashboards $(VENV)/.docs tools/setup.sh $(wildcard tests/dashboards/grafana_schema/* tests/manifests/kubernetes/published/*.*)
	@tools/setup.sh system-test $(VENV)
	@touch $@
