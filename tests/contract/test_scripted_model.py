from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from team_runtime.models.base import Model
from team_runtime.models.scripted import ScriptedModel
from tests.contract.model_contract import Line, ModelContract


class TestScriptedModel(ModelContract):
    @contextmanager
    def playing(self, *replies: Sequence[Line]) -> Iterator[Model]:
        start = [
            {
                "say": "".join(line for line in reply if isinstance(line, str)),
                "calls": [
                    {"tool": line[0], "input": line[1]} for line in reply if isinstance(line, tuple)
                ],
            }
            for reply in replies
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "playbook.yaml"
            path.write_text(json.dumps({"agents": {"lead": {"start": start}}}), encoding="utf-8")
            yield ScriptedModel.load(path)
