"""Scripted failures: attempts that fail, or lose their worker, at steps that a test names.

A scripted mishap replaces the call of the agent's function, or the report after it, so the loop
can't tell it from a real one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from stepwell_client import Agent, StepKind
from stepwell_client.errors import LeaseLost
from stepwell_client.internal import AgentRunner, StepServices
from stepwell_client.v1 import types_pb2, worker_pb2

Attempt = Callable[[], Awaitable[worker_pb2.Outcome]]


class Mishap(Protocol):
    """The failure of one attempt."""

    async def befall(
        self, assignment: worker_pb2.Assignment, services: StepServices, attempt: Attempt
    ) -> worker_pb2.Outcome:
        """Return the outcome to report, or raise LeaseLost if none is ever reported."""
        ...


class Fails:
    """The attempt fails without calling the agent."""

    def __init__(self, failure: types_pb2.Failure) -> None:
        self._failure = failure

    async def befall(
        self, assignment: worker_pb2.Assignment, services: StepServices, attempt: Attempt
    ) -> worker_pb2.Outcome:
        """Report the failure."""
        del services, attempt
        outcome = worker_pb2.Outcome(
            lease=assignment.lease,
        )
        outcome.failed.failure.CopyFrom(self._failure)
        return outcome


class IsLost:
    """The worker dies before the agent's function, or after it and before its outcome is reported."""

    def __init__(self, *, after: bool) -> None:
        self._after = after

    async def befall(
        self, assignment: worker_pb2.Assignment, services: StepServices, attempt: Attempt
    ) -> worker_pb2.Outcome:
        """Report nothing."""
        if self._after:
            await attempt()
        elif assignment.task.effect == types_pb2.EFFECT_AT_MOST_ONCE:
            # It died after reporting that it starts, so it is unknown how far it came.
            await services.begin(assignment)
        raise LeaseLost("the script lost this worker")


class _Line:
    """One line of the script."""

    def __init__(self, step: str, mishap: Mishap, times: int) -> None:
        self.step = step
        self.mishap = mishap
        self.times = times


class Script:
    """The mishaps of an environment, used up in the order in which they were added."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []

    def add(self, step: str, mishap: Mishap, times: int) -> None:
        """Add a mishap for the next attempts at a step: a task's id or type, or a step's kind."""
        if times < 1:
            raise ValueError(f"times is {times}; it is at least 1")
        self._lines.append(_Line(step, mishap, times))

    @property
    def left(self) -> list[str]:
        """Steps whose mishaps have not all happened, so the test proves less than it says."""
        return [line.step for line in self._lines if line.times]

    def take(self, assignment: worker_pb2.Assignment) -> Mishap | None:
        """Return the mishap of this attempt, or None."""
        names = _names(assignment)
        for line in self._lines:
            if line.times and line.step in names:
                line.times -= 1
                return line.mishap
        return None


class ScriptedRunner(AgentRunner):
    """Runs the agent's steps, except those with a scripted mishap."""

    def __init__(self, agent: Agent, script: Script) -> None:
        super().__init__(agent)
        self._script = script

    async def run(
        self, assignment: worker_pb2.Assignment, services: StepServices
    ) -> worker_pb2.Outcome:
        """Run the step, or its scripted mishap."""
        mishap = self._script.take(assignment)
        honest = super().run
        if mishap is None:
            return await honest(assignment, services)
        return await mishap.befall(assignment, services, lambda: honest(assignment, services))


def _names(assignment: worker_pb2.Assignment) -> set[str]:
    kind = StepKind(assignment.execution.kind)
    if kind is StepKind.TASK:
        return {assignment.task.task_id, assignment.task.type} - {""}
    return {kind.name, kind.name.lower()}
