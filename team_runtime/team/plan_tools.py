"""`submit_plan`, `request_plan`, `review_plan`: the plan gate as the models see it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from team_runtime.guard.base import Effect
from team_runtime.plans.store import PlanStore
from team_runtime.team.planning import LEAD, PERSON
from team_runtime.team.team import Team
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.inputs import Strict


class SubmitPlanInput(Strict):
    plan: str = Field(
        min_length=1, description="what you will change, file by file, and how tested"
    )
    files: list[str] | None = Field(
        default=None,
        description="paths or patterns (src/**) of all files that you will change: once approved "
        "you can change no others",
    )


class SubmitPlan:
    name: ClassVar[str] = "submit_plan"
    description: ClassVar[str] = (
        "Submit your plan for review, or a revision after a rejection. Then end your turn: the "
        "decision wakes you. Until that revision is approved nothing can be changed."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = SubmitPlanInput

    def __init__(self, team: Team) -> None:
        self._team = team

    def run(self, input: SubmitPlanInput, context: ToolContext) -> str:
        parts = self._team.parts
        task, epoch = parts.assignments.plan_key(context.agent)
        # First: whoever reads the plan may ask at once for another one, which ends this wait.
        self._team.roster.change(context.agent, planned=True)
        try:
            revision = parts.planning.submit(
                context.agent, task, epoch, parts.session, input.plan, input.files
            )
        except BaseException:
            self._team.roster.change(context.agent, planned=False)
            raise
        reviewer = "a person" if parts.planning.reviewer == PERSON else "the lead"
        return (
            f"Revision {revision.number} ({revision.request_id}) waits for review by {reviewer}. "
            "End your turn now."
        )


class RequestPlanInput(Strict):
    teammate: str
    task: str = Field(description="what the plan is to be about")


class RequestPlan:
    name: ClassVar[str] = "request_plan"
    description: ClassVar[str] = (
        "Demand a plan from a teammate for what it is doing. From now on it can change nothing "
        "until a new plan is approved; an earlier plan of it no longer counts."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = RequestPlanInput

    def __init__(self, team: Team, plans: PlanStore) -> None:
        self._team = team
        self._plans = plans

    def run(self, input: RequestPlanInput, context: ToolContext) -> str:
        if input.teammate == LEAD:
            raise ToolFailure("The lead submits no plans; nothing was asked for.")
        member = self._team.roster.get(input.teammate)
        parts = self._team.parts
        task, epoch = parts.assignments.plan_key(member.name)
        if task is not None:  # whoever goes on with it later needs a plan too
            parts.board.edit(task, plan_required=True)
        else:
            parts.assignments.require_plan(member.name)
            self._team.notes.add(member.name, requirePlan=True)
        self._plans.demand(member.name, task, epoch, parts.session, input.task)
        self._team.roster.change(member.name, planned=False)
        text = f"Submit a plan with submit_plan before you go on: {input.task}"
        parts.bus.send(LEAD, member.name, text, "message", {"task": task} if task else None)
        return f"{member.name} can change nothing until a plan for this is approved."


class ReviewPlanInput(Strict):
    request_id: str = Field(description="of the plan_request message")
    approve: bool
    feedback: str = ""


class ReviewPlan:
    name: ClassVar[str] = "review_plan"
    description: ClassVar[str] = (
        "Approve or reject one revision of a teammate's plan. Give concrete feedback on a no."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = ReviewPlanInput

    def __init__(self, team: Team) -> None:
        self._team = team

    def run(self, input: ReviewPlanInput, context: ToolContext) -> str:
        revision = self._team.parts.planning.decide_as_lead(
            input.request_id, input.approve, input.feedback
        )
        return f"Revision {revision.number} is {revision.state}; its author was told."
