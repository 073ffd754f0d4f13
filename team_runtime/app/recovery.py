"""What a run does before its agents start: put right what an earlier process left in the middle.

The order matters. Left-over processes are ended before anybody else gets their worktree; a resumed
session adopts the claims of its agents before claims of dead runs are given back. Each step can be
done again, in case this process dies in the middle too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from team_runtime.app.workspace import Workspace
from team_runtime.board.base import Claim
from team_runtime.board.model import PENDING, RELEASED, Task, lineage
from team_runtime.clock import iso
from team_runtime.daemons.job_records import lost
from team_runtime.errors import TeamError
from team_runtime.process.orphans import end_left_by
from team_runtime.store.presence import RunPresence
from team_runtime.team.planning import LEAD
from team_runtime.types import Json, Liveness


@dataclass(frozen=True)
class Recovery:
    """The recovery of one workspace at the start of one run."""

    workspace: Workspace
    presence: RunPresence

    def run(self, session: str) -> list[Claim]:
        """Put everything right. Returns the claims that the session's agents keep."""
        dead = self._dead()
        for user in end_left_by(dead):
            self.workspace.events.emit("process_ended", pid=user.pid, name=user.name)
        self._lose_jobs()
        self.workspace.approvals.tidy()
        self._mend_git()
        record = self.workspace.sessions.load(session)
        # Noted before anything is claimed, so that the next run finds what this one held.
        runs = [*record.get("runs", []), self.presence.run]
        self.workspace.sessions.save(session, {"runs": runs})
        claims = self._keep_claims(record)
        for task in self.workspace.board.reap():
            self._snapshot(task)
        for run in dead:
            self.presence.forget(run)
        return claims

    def _dead(self) -> Sequence[str]:
        known = [str(record["run"]) for record in self.presence.known()]
        return [run for run in known if self.presence.liveness(run) is Liveness.DEAD]

    def _lose_jobs(self) -> None:
        """Record that the jobs of dead runs are over; their agents are told when they go on."""
        jobs = self.workspace.jobs
        for job in jobs.all():
            if job.running and self.presence.liveness(job.run) is Liveness.DEAD:
                jobs.save(lost(job, iso(self.workspace.store.clock.now())))
        jobs.prune()

    def _mend_git(self) -> None:
        """Finish or undo what was cut off."""
        workspace = self.workspace
        for message in (*workspace.landing.recover(), *workspace.worktrees.recover()):
            workspace.events.emit("notice", text=message)

    def _keep_claims(self, session: Mapping[str, Json]) -> list[Claim]:
        """The claims of a resumed session's agents, carried over to this run with their plans."""
        left = {agent["name"]: agent.get("left") for agent in session.get("agents", [])}
        claims = []
        for agent in dict.fromkeys((LEAD, *left)):
            claim = self._adopt(agent, session.get("runs", []))
            claim = claim or self._claim_again(agent, left.get(agent))
            if claim is not None:
                self._keep_plan(claim, left.get(agent))
                claims.append(claim)
        return claims

    def _adopt(self, agent: str, runs: Sequence[str]) -> Claim | None:
        for run in reversed(runs):
            claim = self.workspace.board.adopt(agent, run)
            if claim is not None:
                return claim
        return None

    def _claim_again(self, agent: str, left: Mapping[str, Json] | None) -> Claim | None:
        """The task that the agent gave back when its run was stopped, if it is still free."""
        if left is None:
            return None
        board = self.workspace.board
        try:
            task = board.get(left["task"])
            last = task.attempts[-1] if task.attempts else None
            if task.status != PENDING or last is None or last.epoch != left["epoch"]:
                return None
            return board.claim(task.id, agent) if last.outcome == RELEASED else None
        except TeamError:
            return None

    def _keep_plan(self, claim: Claim, left: Mapping[str, Json] | None) -> None:
        task = self.workspace.board.get(claim.task_id)
        stopped_at = left["epoch"] if left is not None and left["task"] == task.id else None
        for epoch in lineage(task, stopped_at)[1:]:
            if self.workspace.plans.carry_over(claim.owner, task.id, epoch, claim.epoch):
                return

    def _snapshot(self, task: Task) -> None:
        if task.worktree is None:
            return
        worktrees = self.workspace.worktrees
        note = f"Unfinished: {task.subject}\n\nIts run ended without giving it back."
        try:
            worktrees.commit(worktrees.get(task.worktree), note, task.attempts[-1].owner)
        except TeamError as error:
            # The work stays in the folder, where the next owner finds it.
            self.workspace.events.emit("notice", text=f"{task.id}: {error}")
