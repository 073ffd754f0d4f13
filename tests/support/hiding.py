"""A playbook: bob hands in a plan and waits for its review; meanwhile the lead runs the commands of
the JSON file `TEAM_TEST_COMMANDS`, one after another."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support.careful import history, say


def reply(agent: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    past = [call["name"] for call in history(messages).values()]
    if agent == "bob":
        plan = ("submit_plan", {"plan": "Open the doors."})
        return say("My plan waits.") if past else say("I plan.", plan)
    if not past:
        given = {"name": "bob", "role": "writer", "prompt": "Plan it.", "require_plan": True}
        return say("Bob begins.", ("spawn_teammate", given))
    commands = json.loads(Path(os.environ["TEAM_TEST_COMMANDS"]).read_text())
    if past.count("bash") < len(commands):
        return say("I try.", ("bash", {"command": commands[past.count("bash")]}))
    return say("I tried all.")
