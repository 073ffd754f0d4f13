"""Model names: `provider:model`; a bare name means Anthropic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from team_runtime.errors import InputError

ANTHROPIC: Final = "anthropic"
SCRIPTED: Final = "scripted"
PROVIDERS: Final = (ANTHROPIC, SCRIPTED)


@dataclass(frozen=True)
class ModelName:
    """Which provider's which model; `scripted` has the path of its playbook as model."""

    provider: str
    model: str

    @property
    def is_program(self) -> bool:
        """Whether it is a playbook in Python, which runs when it is loaded."""
        return self.provider == SCRIPTED and Path(self.model).suffix == ".py"


def parse_model(name: str) -> ModelName:
    """`name` in its two parts. Raises `InputError` for an unknown provider or an empty part."""
    provider, colon, model = name.strip().partition(":")
    if not colon:
        provider, model = ANTHROPIC, provider
    if provider not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise InputError(
            f"{name!r} names an unknown model provider {provider!r}. Providers: {known}. "
            f"For a model with a colon in its name write {ANTHROPIC}:{name}"
        )
    if not model:
        raise InputError(f"{name!r} names no model. Write provider:model, such as {provider}:MODEL")
    return ModelName(provider, model)
