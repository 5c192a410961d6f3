# Every target sets up what it needs; the second run is quick. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help up test check unit bench chaos lock image-check claude-code system-deps clean

BIN := .venv/bin
# Whole fleets, and tests that measure: one after the other. All others, most of which wait, by two or four.
WORKERS := $(shell [ "$$(getconf _NPROCESSORS_ONLN)" -gt 3 ] && echo 4 || echo 2)
ALONE := tests/integration/test_live_clients.py tests/real_cli tests/mutants tests/partition tests/chaos
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

test: .venv/.dev-stamp ## Everything CI runs: check, then all tests, the unit tests with coverage
	@sh scripts/system-deps test
	@$(MAKE) --no-print-directory check
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS) tests/unit $(ARGS)
	$(BIN)/pytest -n $(WORKERS) --ignore=tests/unit $(addprefix --ignore=,$(ALONE)) $(ARGS)
	$(BIN)/pytest $(ALONE) $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --format=total --fail-under=0 | sed 's/.*/coverage: &%, see .coverage-report.txt/'
	@$(BIN)/coverage report > .coverage-report.txt || { tail -1 .coverage-report.txt; exit 1; }

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

chaos: .venv/.dev-stamp ## Break a fleet of real processes at random and judge it; SEEDS=10 FIRST=1 SECONDS=10
	@mkdir -p .rig
	$(BIN)/python -m tests.chaos --seeds $(or $(SEEDS),10) --first $(or $(FIRST),1) --seconds $(or $(SECONDS),10) \
	  --results .rig/chaos.jsonl $(ARGS)

lock: .venv/.dev-stamp ## Resolve the dependencies anew; UPGRADE=1 takes newer versions
	@sh scripts/lock $(if $(UPGRADE),--upgrade)

image-check: .venv/.dev-stamp ## Build and run deploy/Dockerfile without Docker (as root; debootstrap, network); BASE=DIR keeps the clean system
	$(BIN)/python scripts/image_check.py $(if $(BASE),--base $(BASE))

claude-code: .venv/.dev-stamp ## Install the Claude Code CLI from npm into .rig/, for tests/real_cli
	@$(BIN)/python -c 'from tests.real_cli.cli_rig import claude_binary; print(claude_binary())'

system-deps: ## Install Redis, Chromium, tmux and docker-compose with apt (as root), for the tests
	@sh scripts/system-deps test

clean: ## Remove the environment and every cache; never your sessions' data
	rm -rf .venv .rig .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage-report.txt dist build
