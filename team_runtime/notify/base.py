"""What a person is told while nobody looks, and what a way to tell it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Notice:
    """One thing that a person would want to know now. Both texts are safe to show."""

    title: str
    body: str = ""


class NoticeLost(Exception):
    """A notice could not be delivered; the text says why and holds no secret."""


class Sink(Protocol):
    """One way to reach a person."""

    name: str
    """How messages to the user call it; never an address, which may hold a token."""

    def send(self, notice: Notice) -> None:
        """Deliver one notice; may take seconds. Raises `NoticeLost`."""
        ...
