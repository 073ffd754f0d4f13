#!/bin/sh
# A nightly look at the dependencies of the repository that you are in. It fires while `team daemon`
# runs, each time in a new session; `team-daemon.service` keeps that running.
set -eu

team cron add "30 3 * * *" --tz Europe/Berlin --misfire once - <<'PROMPT'
Look at the files that name this repository's dependencies. Report, as a short list, which of them
are pinned, which are not, and which are used nowhere. Change nothing.
PROMPT

team cron list
team cron next "30 3 * * *" --tz Europe/Berlin --from 2026-10-24T12:00 -n 2
