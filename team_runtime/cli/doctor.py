"""`team doctor`: what is missing here, and how to fix it."""

from __future__ import annotations

import os
from typing import Final

import click

from team_runtime.app.doctor import Finding, State, examine
from team_runtime.cli.common import Shared, shared_options
from team_runtime.text import for_terminal

_MARKS: Final = {State.OK: "ok", State.NOTE: "note", State.PROBLEM: "PROBLEM"}


@click.command("doctor")
@shared_options
def command(shared: Shared) -> int:
    """Look at all that `team run` needs in this workspace. Nothing is started or changed.

    Exit 1 when something keeps a team from running here.
    """
    findings = examine(shared.root, os.environ)
    rows = [{**vars(finding), "state": finding.state.value} for finding in findings]
    problems = sum(finding.state is State.PROBLEM for finding in findings)
    lines = [line for finding in findings for line in _lines(finding)]
    verdict = f"{problems} to fix first." if problems else "A team can run here."
    shared.answer(rows, [f"workspace {for_terminal(str(shared.root))}", *lines, verdict])
    return 1 if problems else 0


def _lines(finding: Finding) -> list[str]:
    head = f"{_MARKS[finding.state]:<8} {finding.name:<12} {for_terminal(finding.detail)}"
    return [head, *([f"{'':<21} {for_terminal(finding.hint)}"] if finding.hint else [])]
