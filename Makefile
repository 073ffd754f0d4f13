PYTHON ?= python3

# The areas that `make ci` runs one after the other; each takes at most 6 minutes on two cores.
SECURITY := tests/security $(wildcard tests/acceptance/test_hostile_workspace.py \
	tests/acceptance/test_team_sandbox.py tests/acceptance/test_cli_trust.py \
	tests/unit/test_git_hostile.py tests/unit/test_beneath.py)
DAEMONS := $(wildcard tests/*/test_*job*.py tests/*/test_*schedule*.py tests/*/test_*daemon*.py \
	$(patsubst %,tests/unit/test_%.py,when slots attention supervisor folders clock_watch rest notify spool) \
	tests/acceptance/test_requests.py)
NOTHING_SKIPPED := TEAM_TESTS_NO_SKIP=1 $(PYTHON) -m pytest -n auto -m "not fault"

.PHONY: check test ci core teams security daemons fault bench

check:  ## style and types, of the source and of the tests
	$(PYTHON) -m ruff check team_runtime tests benchmarks examples docs
	$(PYTHON) -m ruff format --check team_runtime tests benchmarks examples docs
	$(PYTHON) -m mypy

test:  ## what everybody runs; at most 3 minutes, names what it skipped
	$(PYTHON) -m pytest -n auto -m "not fault and not slow"

ci: check core teams security daemons  ## everything but the long fault runs; nothing may be skipped

core:  ## what is in no area of its own
	$(NOTHING_SKIPPED) $(addprefix --ignore=,tests/acceptance $(SECURITY) $(DAEMONS))

teams:  ## whole teams, commands and terminals
	$(NOTHING_SKIPPED) tests/acceptance $(addprefix --ignore=,$(SECURITY) $(DAEMONS))

security:  ## what is blocked, by name, under bubblewrap
	$(NOTHING_SKIPPED) $(SECURITY)

daemons:  ## schedules, background jobs, and what they wake
	$(NOTHING_SKIPPED) $(DAEMONS)

fault:  ## kills, torn writes and full disks in large numbers
	$(PYTHON) -m pytest -m fault tests --timeout 1200

bench:  ## prints ratios against a rival run beside us
	$(PYTHON) -m benchmarks.turns
	$(PYTHON) -m benchmarks.sandbox
	$(PYTHON) -m benchmarks.decisions
	$(PYTHON) -m benchmarks.idle
