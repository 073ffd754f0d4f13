"""A person's answer to a question, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping

from team_runtime.app.hooks import always_rules
from team_runtime.app.tools import EFFECTS
from team_runtime.app.workspace import Workspace
from team_runtime.approvals.model import Approval
from team_runtime.errors import RefusedError
from team_runtime.guard.always import exact_rules
from team_runtime.guard.base import Effect, Question
from team_runtime.store.beneath import is_protected


def allow(workspace: Workspace, approval_id: str, always: bool) -> tuple[Approval, list[str]]:
    """Allow the call that was asked about, and with `always` the same call from now on. Returns the
    approval with the rules that were kept for this user.

    Raises `ApprovalRefused` when the answer does not count, `RefusedError` when no rule can say
    `always`; nothing was answered then.
    """
    approval = workspace.approvals.get(approval_id)
    rules = rules_for_always(approval) if always else []
    done = workspace.approvals.answer(approval_id, True, always=always)
    if rules:
        always_rules(workspace.environ).add(workspace.root, rules)
    return done, rules


def rules_for_always(approval: Approval) -> list[str]:
    """The rules that would allow exactly this call. Raises `RefusedError`, which says why there are
    none."""
    subject = approval.subject
    effect = EFFECTS.get(subject.tool)
    if effect is None:
        raise RefusedError(f"there is no tool {subject.tool!r} here")
    questions = [
        _question(subject.tool, effect, subject.input, path) for path in subject.paths or (None,)
    ]
    return exact_rules(questions, approval.cause.origin)


def _question(tool: str, effect: Effect, input: Mapping[str, object], path: str | None) -> Question:
    protected = path is not None and is_protected(path)
    return Question(tool, effect, input, path, in_task=False, protected=protected)
