"""What the inputs of all tools have in common. Not in `base.py`: that needs no pydantic."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A tool's input: unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


class NoInput(Strict):
    """The input of a tool that needs none."""
