"""A playbook whose agents have one thing to say, at once."""

from __future__ import annotations

from typing import Any


def reply(agent: str, messages: list[dict[str, Any]]) -> str:
    return "It is time."
