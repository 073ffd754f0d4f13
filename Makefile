PYTHON ?= python3

.PHONY: check test ci fault security bench

check:  ## style and types, of the source and of the tests
	$(PYTHON) -m ruff check team_runtime tests benchmarks examples docs
	$(PYTHON) -m ruff format --check team_runtime tests benchmarks examples docs
	$(PYTHON) -m mypy

test:  ## what everybody runs; at most 3 minutes, names what it skipped
	$(PYTHON) -m pytest -n auto -m "not fault and not slow"

ci: check  ## everything but the long fault runs; nothing may be skipped
	TEAM_TESTS_NO_SKIP=1 $(PYTHON) -m pytest -n auto -m "not fault"

fault:  ## kills, torn writes and full disks in large numbers
	$(PYTHON) -m pytest -m fault tests --timeout 1200

security:  ## what is blocked, by name, under bubblewrap; at most 6 minutes, and nothing may be skipped
	TEAM_TESTS_NO_SKIP=1 $(PYTHON) -m pytest -n auto -m "not fault" tests/security \
		tests/acceptance/test_hostile_workspace.py tests/acceptance/test_team_sandbox.py \
		tests/acceptance/test_cli_trust.py tests/unit/test_git_hostile.py tests/unit/test_beneath.py

bench:  ## prints ratios against a rival run beside us
	$(PYTHON) -m benchmarks.turns
	$(PYTHON) -m benchmarks.sandbox
	$(PYTHON) -m benchmarks.decisions
	$(PYTHON) -m benchmarks.idle
