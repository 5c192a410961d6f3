# Every target sets up what it needs; the second run is quick. `make` alone lists them.
.DEFAULT_GOAL := help
# Some machines set it for their images. Each process that a test starts would compile all it imports anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help up test test-core test-browser test-real-cli test-mutants test-all coverage check unit bench chaos docs dist lock image-check clean-check claude-code codex upgrade-clis nightly-clis system-deps clean

BIN := .venv/bin
CORES := $(shell getconf _NPROCESSORS_ONLN)
# Most tests wait for a server more than half of their time, so there are three workers per core.
WORKERS := $(shell echo $$((3 * $(CORES))))
PARALLEL := -n $(WORKERS) --dist worksteal
# A browser page uses a core by itself.
PAGES := -n $$(($(CORES) + 1)) --dist loadfile
# Tests of one file share a machine, in the order in which they stand: a later one reads what the others decided.
CLIS := -n 2 --dist loadfile -p no:randomly
# These measure delays of a CLI, start a network, or run processes of their own for minutes.
APART := $(addprefix tests/,real_cli partition fleet mutants)
# `make test` runs QUICK; `make test-all` runs everything else, and all of the browser's tests.
QUICK := ((not slow and not browser) or browser_pass) and not quarantine
LOCKS := requirements.lock requirements-build.lock requirements-dev.lock

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.venv/.run-stamp: requirements.lock requirements-build.lock pyproject.toml scripts/setup
	@sh scripts/setup run

.venv/.dev-stamp: $(LOCKS) pyproject.toml scripts/setup
	@sh scripts/setup dev

up: .venv/.run-stamp ## Start broker, hub and collector, and print the dashboard's URL
	@sh scripts/system-deps run
	@$(BIN)/adsum up $(ARGS)

test: .venv/.dev-stamp ## What a change needs: checks, unit, a real Redis, every view in a browser, some chaos
	@sh scripts/system-deps test
	@mkdir -p .rig
	@{ $(MAKE) --no-print-directory check > .rig/check.log 2>&1 || { cat .rig/check.log; exit 1; }; } & check=$$!; \
	$(BIN)/pytest $(PARALLEL) -m "$(QUICK)" $(addprefix --ignore=,$(APART) tests/test_architecture.py) $(ARGS); \
	code=$$?; wait $$check && echo "make check: passed" || { echo "make check: failed, see above"; code=1; }; exit $$code

test-browser: .venv/.dev-stamp ## All tests of the page in a browser
	$(BIN)/pytest $(PAGES) -m "not quarantine" tests/browser $(ARGS)

test-core: .venv/.dev-stamp ## Of the slow tests the ones that protect a promise
	$(BIN)/pytest $(PARALLEL) -m "core and not real_cli and not quarantine" $(addprefix --ignore=,$(APART) tests/browser) $(ARGS)

test-real-cli: .venv/.dev-stamp ## The core scenarios with the real Claude Code and Codex, from npm
	$(BIN)/pytest $(CLIS) -m "core and not quarantine" tests/real_cli $(ARGS)

test-mutants: .venv/.dev-stamp ## A quarter of the mutants, chosen by the commit, and those of changed files
	$(BIN)/pytest tests/mutants --quarter=HEAD $(ARGS)

test-all: .venv/.dev-stamp ## The rest: slow tests, all of the browser, real CLIs and mutants, networks, more chaos
	@sh scripts/system-deps test
	$(BIN)/pytest $(PARALLEL) -m "(slow or quarantine) and not browser" $(addprefix --ignore=,$(APART) tests/chaos) $(ARGS)
	@$(MAKE) --no-print-directory test-browser
	$(BIN)/pytest tests/mutants $(ARGS)
	$(BIN)/pytest $(CLIS) tests/real_cli $(ARGS)
	$(BIN)/pytest -n 2 --dist loadfile tests/partition tests/fleet $(ARGS)
	$(BIN)/pytest -n $(CORES) -m slow tests/chaos $(ARGS)
	$(BIN)/pytest -m quarantine tests/browser tests/chaos $(ARGS) || [ $$? = 5 ] # there may be none

coverage: .venv/.dev-stamp ## What unit tests reach, with the floor that pyproject.toml sets
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PARALLEL) tests/unit $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --format=total --fail-under=0 | sed 's/.*/coverage: &%, see .coverage-report.txt/'
	@$(BIN)/coverage report > .coverage-report.txt || { tail -1 .coverage-report.txt; exit 1; }

check: .venv/.dev-stamp ## Lint, format, types, imports, structure, vendored assets, the accuracy floor
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/vendor.py --check
	@sh scripts/check-web
	@sh scripts/check-workflows
	$(BIN)/python -m scripts.quarantine
	$(BIN)/pytest -q tests/test_architecture.py
	$(BIN)/python -m bench.accuracy tests/data/traces --floor bench/score.json
	$(BIN)/python -m bench.accuracy tests/data/long_traces --floor bench/score_long.json

unit: .venv/.dev-stamp ## Only the quick tests, which need no server and no browser
	$(BIN)/pytest $(PARALLEL) -q -m "not slow and not quarantine" tests/unit $(ARGS)

bench: .venv/.dev-stamp ## Measure hooks, delay, idling, draining a backlog, a restart of the hub
	$(BIN)/python -m bench.hook_post
	$(BIN)/python -m bench.latency
	$(BIN)/python -m bench.footprint
	$(BIN)/python -m bench.publisher
	$(BIN)/python -m bench.drain
	$(BIN)/python -m bench.hub_restart
	$(BIN)/python -m bench.verdict
	$(BIN)/python -m bench.hook_transports

chaos: .venv/.dev-stamp ## Break a fleet of real processes at random and judge it; SEEDS=10 FIRST=1 SECONDS=10
	@mkdir -p .rig
	$(BIN)/python -m tests.chaos --seeds $(or $(SEEDS),10) --first $(or $(FIRST),1) --seconds $(or $(SECONDS),10) \
	  --results .rig/chaos.jsonl $(ARGS)

.rig/docs/.stamp: requirements-docs.lock | .venv/.run-stamp
	@$(BIN)/python -m venv --clear .rig/docs
	@.rig/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

docs: .rig/docs/.stamp ## Build the documents as a site into site/
	@.rig/docs/bin/mkdocs build --strict --clean && echo "open site/index.html"

dist: .venv/.run-stamp ## Build the sdist and the wheel into dist/
	@rm -rf dist
	$(BIN)/python -m hatchling build --directory dist

lock: .venv/.dev-stamp ## Resolve the dependencies anew; UPGRADE=1 takes newer versions
	@sh scripts/lock $(if $(UPGRADE),--upgrade)

image-check: .venv/.dev-stamp ## Build and run deploy/Dockerfile without Docker (as root; debootstrap, network); BASE=DIR keeps the clean system
	$(BIN)/python scripts/image_check.py $(if $(BASE),--base $(BASE))

clean-check: .venv/.dev-stamp ## Time `make up` and `make test` in a clean Debian (as root; debootstrap, network); QUICK=1, RELEASE=bookworm, BASE=DIR
	$(BIN)/python scripts/clean_check.py $(if $(BASE),--base $(BASE)) $(if $(QUICK),--quick) $(if $(RELEASE),--release $(RELEASE))

upgrade-clis: .venv/.dev-stamp ## Raise the versions in tests/clis.toml, and list hook events and fields that are new
	@$(BIN)/python -m scripts.upgrade_clis

nightly-clis: .venv/.dev-stamp ## Test the newest Claude Code and Codex from npm; unknown words go to .rig/cli-news.md
	@$(BIN)/python -m scripts.upgrade_clis --nightly

claude-code: .venv/.dev-stamp ## Install the Claude Code CLI from npm into .rig/, for tests/real_cli
	@$(BIN)/python -c 'from tests.real_cli.cli_rig import claude_binary; print(claude_binary())'

codex: .venv/.dev-stamp ## Install the Codex CLI from npm into .rig/, for tests/real_cli
	@$(BIN)/python -c 'from tests.real_cli.codex_rig import codex_binary; print(codex_binary())'

system-deps: ## Install with apt (as root) what the tests need: Redis, Chromium, tmux and more
	@sh scripts/system-deps test

clean: ## Remove the environment and every cache; never your sessions' data
	rm -rf .venv .rig .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage-report.txt dist build site

# For the workflows
.PHONY: web-types release-notes github-release cli-news-issue

# `make ci-test` is `make test` as CI runs it: on Linux as root, since CI fails on a skipped test and some tests need
# root. The environment is set up before, by the user who owns pip's cache.
ci-%: .venv/.dev-stamp
	@$(if $(filter Linux,$(shell uname)),$(if $(filter-out 0,$(shell id -u)),sudo -E env "PATH=$$PATH")) \
	  $(MAKE) --no-print-directory $*

# The compiler that checks the page's types, from npm into .rig/.
web-types:
	@sh scripts/check-web fetch

# Recipes read TAG from the environment, also after `make TAG=v0.1.0 …`: so the shell never parses its text.
release-notes: ## Write the changelog section of TAG=vX.Y.Z into .rig/release-notes.md
	@mkdir -p .rig
	@python3 scripts/changelog_section.py "$$TAG" > .rig/release-notes.md

# Needs gh and GH_TOKEN, as does the next.
github-release:
	@gh release create "$$TAG" --verify-tag --title "$$TAG" --notes-file .rig/release-notes.md dist/*

cli-news-issue:
	@sh scripts/cli-news-issue
