# Every target sets up what it needs; the second run is quick. `make` alone lists them.
.DEFAULT_GOAL := help
# Some machines set it for their images. Each process that a test starts would compile all it imports anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help up test test-all coverage check unit bench chaos docs lock image-check clean-check claude-code codex system-deps clean

BIN := .venv/bin
CORES := $(shell getconf _NPROCESSORS_ONLN)
WORKERS := $(shell [ $(CORES) -gt 3 ] && echo 4 || echo 2)
# Most of the tests with servers wait: more of them than there are cores.
WAITING := $(shell [ $(CORES) -gt 3 ] && echo 6 || echo 3)
# Slow ones wait still more: for Redis to be away, for a machine to be offline, for pages.
PATIENT := $(shell [ $(CORES) -gt 3 ] && echo 8 || echo 4)
# Tests that measure, and mutants, which are several at once by themselves.
ALONE := tests/integration/test_live_clients.py tests/mutants
# These beside each other: of the second and third most is waiting. On two cores not beside the first,
# where delays of the CLI are measured. Nor is chaos: a run of it keeps three quarters of a core busy.
PAIR := tests/real_cli tests/partition tests/fleet
AFTER := $(shell [ $(CORES) -gt 3 ] || echo tests/partition tests/fleet)
APART := $(addprefix --ignore=,$(ALONE) $(PAIR) tests/chaos)
# What a change needs at once, and the rest: one expression, so that each test is in exactly one of both.
QUICK := (not slow and not browser) or browser_pass
# What fails while others want the cores fails alone as well, or the machine was too busy for it. Pytest
# names it both times.
AGAIN = echo "== once more, alone" && $(BIN)/pytest -v --last-failed --last-failed-no-failures none $(ARGS)
LOCKS := requirements.lock requirements-build.lock requirements-dev.lock

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.venv/.run-stamp: requirements.lock requirements-build.lock pyproject.toml scripts/setup
	@sh scripts/setup run

.venv/.dev-stamp: $(LOCKS) pyproject.toml scripts/setup
	@sh scripts/setup dev

up: .venv/.run-stamp ## Start broker, hub and collector, and print the dashboard's URL
	@sh scripts/system-deps run
	@$(BIN)/adsum up $(ARGS)

test: .venv/.dev-stamp ## What a change needs: check, unit, a real Redis, every view in a browser, some chaos
	@sh scripts/system-deps test
	@$(MAKE) --no-print-directory check
	$(BIN)/pytest -n $(WORKERS) -m "not slow" tests/unit $(ARGS) || { [ $$? = 1 ] && $(AGAIN); }
	$(BIN)/pytest -n $(WAITING) --dist worksteal -m "$(QUICK)" --ignore=tests/unit $(APART) $(ARGS) \
	  || { [ $$? = 1 ] && $(AGAIN); }
	$(BIN)/pytest -n $(CORES) -m "not slow" tests/chaos $(ARGS) || { [ $$? = 1 ] && $(AGAIN); }

test-all: .venv/.dev-stamp ## The rest: all of the browser's, slow ones, real CLI, fleet, partition, mutants, chaos
	@sh scripts/system-deps test
	$(BIN)/pytest -n $(PATIENT) --dist worksteal -m "not ($(QUICK))" --ignore=tests/unit $(APART) $(ARGS) \
	  || { [ $$? = 1 ] && $(AGAIN); }
	$(BIN)/pytest $(ALONE) $(ARGS) || { [ $$? = 1 ] && $(AGAIN); }
	@$(MAKE) --no-print-directory -j2 --output-sync=target $(filter-out $(AFTER),$(PAIR))
	$(if $(AFTER),@$(MAKE) --no-print-directory -j2 --output-sync=target $(AFTER))
	$(BIN)/pytest -n $(CORES) -m slow tests/chaos tests/unit $(ARGS) || { [ $$? = 1 ] && $(AGAIN); }

coverage: .venv/.dev-stamp ## What unit tests reach, with the floor that pyproject.toml sets
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS) tests/unit $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --format=total --fail-under=0 | sed 's/.*/coverage: &%, see .coverage-report.txt/'
	@$(BIN)/coverage report > .coverage-report.txt || { tail -1 .coverage-report.txt; exit 1; }

.PHONY: $(PAIR)
$(PAIR): ARGS += -o cache_dir=.pytest_cache/$@
# Each file has a machine of its own, and the CLIs wait for a third of the time.
tests/real_cli: ARGS += -n 2 --dist loadfile
$(PAIR):
	$(BIN)/pytest $@ $(ARGS) || { [ $$? = 1 ] && $(AGAIN) $@; }

check: .venv/.dev-stamp ## Lint, format, types, import contracts, vendored assets, the score of the states
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@if [ -f scripts/vendor.py ]; then $(BIN)/python scripts/vendor.py --check; fi
	@sh scripts/check-web
	$(BIN)/python -m bench.accuracy tests/data/traces --floor bench/score.json
	$(BIN)/python -m bench.accuracy tests/data/long_traces --floor bench/score_long.json

unit: .venv/.dev-stamp ## Only the quick tests, which need no server and no browser
	$(BIN)/pytest -q tests/unit $(ARGS)

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

lock: .venv/.dev-stamp ## Resolve the dependencies anew; UPGRADE=1 takes newer versions
	@sh scripts/lock $(if $(UPGRADE),--upgrade)

image-check: .venv/.dev-stamp ## Build and run deploy/Dockerfile without Docker (as root; debootstrap, network); BASE=DIR keeps the clean system
	$(BIN)/python scripts/image_check.py $(if $(BASE),--base $(BASE))

clean-check: .venv/.dev-stamp ## Time `make up` and `make test` in a clean Debian (as root; debootstrap, network); QUICK=1, RELEASE=bookworm, BASE=DIR
	$(BIN)/python scripts/clean_check.py $(if $(BASE),--base $(BASE)) $(if $(QUICK),--quick) $(if $(RELEASE),--release $(RELEASE))

claude-code: .venv/.dev-stamp ## Install the Claude Code CLI from npm into .rig/, for tests/real_cli
	@$(BIN)/python -c 'from tests.real_cli.cli_rig import claude_binary; print(claude_binary())'

codex: .venv/.dev-stamp ## Install the Codex CLI from npm into .rig/, for tests/real_cli
	@$(BIN)/python -c 'from tests.real_cli.codex_rig import codex_binary; print(codex_binary())'

system-deps: ## Install with apt (as root) what the tests need: Redis, Chromium, tmux and more
	@sh scripts/system-deps test

clean: ## Remove the environment and every cache; never your sessions' data
	rm -rf .venv .rig .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage-report.txt dist build site
