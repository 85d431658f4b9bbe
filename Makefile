# Everything a contributor runs. `make` alone lists it. Nothing needs installing first:
# each target prepares what it needs (./tokenworks venv; local/toolchain) and is quiet when ready.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TW := ./tokenworks
PY := .venv/bin/python
export PYTHONPATH := $(CURDIR)/src:$(CURDIR)

# More arguments for pytest: make test-fast ARGS="tests/spec -x"
ARGS ?=

# Every core takes files of tests (tests/conftest.py). `make test` leaves the cluster for the end.
SHARED := -n auto

# What is generated, and committed: each X has generate-X here, and verify-X follows by itself.
GENERATED := grammar schemas charts docs rendered

##@ Test
.PHONY: test
test: tools lint ## everything: lint, unit, golden, chart, policy, Pulumi, end to end
	@$(PY) -m pytest $(SHARED) --no-loadscope-reorder $(ARGS)

.PHONY: test-fast
test-fast: venv tools-fast ## unit, golden, chart and policy tests; under 3 minutes
	@$(PY) -m pytest $(SHARED) -m "not e2e and not pulumi and not argocd and not engine and not slow" $(ARGS)

.PHONY: test-e2e
test-e2e: tools ## end to end on the local cluster (root)
	@$(PY) -m pytest -m "e2e and not argocd and not engine" $(ARGS)

# Opt-in: `make test` leaves it out (addopts in pyproject.toml; tests/repo lists why).
.PHONY: test-engine
test-engine: tools engine ## a real vLLM without a GPU, on the local cluster (root; 5.5 GB of disk)
	@$(PY) -m pytest -m engine $(ARGS)

.PHONY: test-argocd
test-argocd: tools ## Argo CD on the local cluster: delivers, heals, hands over and back (root)
	@$(PY) -m pytest -m argocd $(ARGS)

.PHONY: lint
lint: venv ## ruff, formatting, types, YAML
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m yamllint --strict .
	@$(PY) -m pyright

.PHONY: bench
bench: tools ## the table of timings, beside what the plain tools need (ARGS="--only NAME" for a part)
	@$(PY) -m bench $(ARGS)

.PHONY: fuzz
fuzz: venv ## broken manifests for ten minutes: check never ends with an error (ARGS="--seconds N")
	@$(PY) -m tests.check.fuzz $(ARGS)

##@ Change
.PHONY: fmt
fmt: venv ## format the code
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

.PHONY: generate
generate: $(addprefix generate-,$(GENERATED)) ## write everything that is generated

.PHONY: verify-generate
verify-generate: $(addprefix verify-,$(GENERATED)) ## fail when something generated is not fresh

.PHONY: generate-grammar
generate-grammar: venv ## what reading engine command lines needs of the catalog
	@$(PY) -m tokenworks.catalog.grammar

.PHONY: generate-schemas
generate-schemas: venv ## JSON Schemas of the documents (schemas/)
	@$(PY) -m tokenworks.spec.schema

.PHONY: generate-charts
generate-charts: venv ## schema, values and README of each chart
	@$(PY) -m tokenworks.render.chart_files

.PHONY: generate-docs
generate-docs: venv ## reference pages (docs/reference/)
	@$(PY) hack/reference.py

.PHONY: generate-rendered
generate-rendered: venv tools-fast ## manifests of the environments that outlive a machine (rendered/)
	@$(TW) render $$(grep -L 'provider: local' stacks/*/environment.yaml | cut -d/ -f2)

# Runs generate-X in a copy of the tree and compares, so it never touches yours.
.PHONY: $(addprefix verify-,$(GENERATED))
$(addprefix verify-,$(GENERATED)): verify-%: venv
	@hack/verify-generate $*

.PHONY: lock
lock: venv ## resolve the dependencies of pyproject.toml anew into locks/
	@hack/lock

.PHONY: verify-lock
verify-lock: venv ## fail when locks/ does not fit pyproject.toml
	@hack/lock --check

# What a branch is compared with.
BASE ?= origin/main

.PHONY: verify-chart-versions
verify-chart-versions: venv ## fail when a chart changed since BASE without a higher version
	@$(PY) hack/charts.py check --base $(BASE)

.PHONY: package-charts
package-charts: venv tools-fast ## archives of the charts, in dist/
	@$(PY) hack/charts.py package dist

.PHONY: release-charts
release-charts: package-charts ## push dist/ to TO=oci://HOST/PATH; SIGN=--sign signs with cosign
	@$(PY) hack/charts.py release dist $(TO) $(SIGN)

# OUT: the file that gets the comment (-: standard output).
.PHONY: pr
pr: venv ## what this branch does to each environment since BASE=origin/main, as a comment (OUT)
	@$(TW) pr --base $(BASE) --out $(or $(OUT),-)

.PHONY: post-comment
post-comment: ## put the comment FROM=FILE on its pull request (in a workflow: hack/comment.py)
	@python3 -I hack/comment.py $(FROM)

.PHONY: refuse-older
refuse-older: ## fail where ENVIRONMENT has a newer commit than this one (in a workflow: hack/newer.py)
	@python3 hack/newer.py $(ENVIRONMENT)

.PHONY: clean
clean: ## remove what tests and linters leave; keeps .venv and the toolchain
	@rm -rf .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

##@ Set up
.PHONY: venv
venv: ## the Python environment, with linters and tests
	@$(TW) venv dev

.PHONY: tools-fast
tools-fast: venv ## build what renders, lints and validates, once
	@$(TW) toolchain charts helm kubeconform >/dev/null

.PHONY: tools
tools: venv ## build the whole toolchain, once (about 25 minutes on two cores)
	@$(TW) toolchain >/dev/null

.PHONY: engine
engine: venv ## install the real engine of test-engine into the cache, once (fetches 2.5 GB)
	@$(PY) -m local.engine >/dev/null

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
