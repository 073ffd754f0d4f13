"""A playbook whose lead runs three jobs, one after another, and waits for each.

What it knows is in the conversation: a job whose start has an unknown outcome is one that it will
be told about, or that never was.
"""

from __future__ import annotations

import re
from typing import Any

from tests.support.careful import history, say

JOBS = 3
COMMAND = (
    "echo begun; setsid sleep 300 & sleep 0.2; echo $$ >>built.txt; "
    "for i in 1 2 3; do echo $i; done; exit 3"
)
_TOLD = re.compile(r'<task_notification job="(job_\d+)" status="(\w+)" exit_code="(\w+)">')
_STARTED = re.compile(r"Started (job_\d+)\.")


def reply(agent: str, messages: list[dict[str, Any]]) -> Any:
    told = {job for job, _, _ in notifications(messages)}
    started = set(_STARTED.findall(" ".join(c.get("text", "") for c in history(messages).values())))
    if started - told:
        return say("I wait.")
    if len(told) >= JOBS:
        return say("All built.")
    return say("I build.", ("bash", {"command": COMMAND, "run_in_background": True}))


def notifications(messages: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Job, status and exit code of each notification."""
    texts = (b.get("text", "") for m in messages for b in m["content"] if m["role"] == "user")
    return [found for text in texts for found in _TOLD.findall(text)]
