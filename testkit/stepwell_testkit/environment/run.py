"""A run of an environment: the actions of a test, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from stepwell.app.commands import carry_out
from stepwell.app.questions import give_answer, open_questions
from stepwell.core.loop.occurrences import (
    Answer,
    AnyCommand,
    Cancel,
    Fork,
    Pause,
    Resume,
    RetryTask,
    SkipTask,
    Start,
    Stop,
)
from stepwell.core.port import Store
from stepwell.core.records.model import Payload, Question, Run
from stepwell.core.records.states import BlockedKind, RunStatus
from stepwell.embedded.result import RunCancelled, RunFailed, RunResult, read_result
from stepwell.engine.executor import Executor
from stepwell.wire.records import to_record
from stepwell_client import encode
from stepwell_testkit.environment.history import History, read_history

HOPS_MAX = 10_000
"""Jumps to the next due time while nothing else happens; more of them mean an endless loop."""
_WAITS = (RunStatus.WAITING, RunStatus.PAUSED)


class NothingHappens(AssertionError):
    """A test waits for a run in which nothing runs or will come due."""


class Ground(Protocol):
    """The part of an environment that a run needs."""

    @property
    def store(self) -> Store: ...

    @property
    def executor(self) -> Executor: ...

    async def settle(self) -> int:
        """Let things happen until nothing moves; return when something is due, -1: never."""
        ...

    def jump(self, ms: int) -> None:
        """Let this much time pass at once."""
        ...


class EnvironmentRun:
    """A run, with the actions of a person."""

    def __init__(self, ground: Ground, tenant_id: str, run_id: str) -> None:
        self._ground = ground
        self._tenant_id = tenant_id
        self.id = run_id

    def __repr__(self) -> str:
        return f"EnvironmentRun({self.id!r})"

    # --- reads ------------------------------------------------------------------------------------

    async def read(self) -> Run:
        """Return the run as of its last commit."""
        run = await self._ground.store.get_run(self._tenant_id, self.id)
        assert run is not None, f"there is no run {self.id!r}"
        return run

    async def wait(self) -> Run:
        """Let time pass until the run has ended, or waits for a person: WAITING or PAUSED.

        Raises:
            NothingHappens: it does neither, and nothing will come due; the message says what it
                waits for.
        """
        for _ in range(HOPS_MAX):
            due_ms = await self._ground.settle()
            run = await self.read()
            # A run that waits for a person is left waiting: `skip` lets its question expire. A
            # sleep passes.
            if run.ended or (run.status in _WAITS and run.blocked_on is not BlockedKind.TIMER):
                return run
            if due_ms < 0:
                raise NothingHappens(
                    f"run {self.id} is {run.status}, in {run.phase}, and waits for {run.blocked_on}"
                )
            self._ground.jump(due_ms)
        raise NothingHappens(f"run {self.id} goes on and on: {HOPS_MAX} things came due for it")

    async def result(self, kind: Any = Any) -> Any:
        """Wait for the end and return the run's result, decoded as the type.

        Raises:
            RunFailed: it FAILED, or was cancelled; `.result` has the records of the run and its
                tasks.
            NothingHappens: it waits for a person, or for something that will not happen.
        """
        run = await self.wait()
        if not run.ended:
            raise NothingHappens(
                f"run {self.id} is {run.status} ({run.pause_reason}), and waits for {run.blocked_on}"
            )
        result: RunResult = await read_result(self._ground.store, run)
        if run.status is RunStatus.CANCELLED:
            raise RunCancelled(result)
        if run.status is RunStatus.FAILED:
            raise RunFailed(result)
        return result.decode(kind) if run.result_id else result.value

    async def history(self) -> History:
        """Return the history so far, after a check that the events give the rows."""
        return await read_history(self._ground.store, await self.read())

    async def questions(self) -> Sequence[Question]:
        """Return the open questions."""
        return await open_questions(self._ground.store, self._tenant_id, self.id)

    # --- commands
    # -------------------------------------------------------------------------------------

    async def answer(
        self, value: object, question_id: str = "", *, replan: bool = False, reason: str = ""
    ) -> None:
        """Answer a question; without its id, the only open one.

        Raises:
            InvalidArgument: the answer doesn't fit; `.violations` says where.
            FailedPrecondition: the question is not open; the reason says why.
            NotFound: the run has no such question.
        """
        if not question_id:
            open_ones = await self.questions()
            assert len(open_ones) == 1, f"{len(open_ones)} questions are open; name one of them"
            question_id = open_ones[0].question_id
        encoded = encode(value)
        payload: Payload = Payload(data=b"null") if encoded is None else to_record(encoded)
        command = Answer(
            question_id=question_id, payload=payload, replan=replan, reason=reason, actor="test"
        )
        await give_answer(self._ground.executor, self._tenant_id, self.id, command)

    async def pause(self, reason: str = "") -> None:
        """Stop dispatching."""
        await self.send(Pause(reason=reason))

    async def resume(self, *, retry_failed: bool = True) -> None:
        """Continue from the last checkpoint."""
        await self.send(Resume(retry_failed=retry_failed))

    async def cancel(self, reason: str = "") -> None:
        """Cancel the run for good."""
        await self.send(Cancel(reason=reason))

    async def stop(self, reason: str = "") -> None:
        """End the run after the iteration in progress."""
        await self.send(Stop(reason=reason))

    async def retry(self, task_id: str) -> None:
        """Run a failed or skipped task again."""
        await self.send(RetryTask(task_id=task_id))

    async def skip_task(self, task_id: str, *, skip_dependents: bool = False) -> None:
        """Settle a task as SKIPPED."""
        await self.send(SkipTask(task_id=task_id, skip_dependents=skip_dependents))

    async def send(self, command: Start | Fork | AnyCommand) -> None:
        """Execute a command of the loop.

        Raises:
            NotFound: the run has no such task.
            FailedPrecondition: the run's state doesn't allow it.
            InvalidArgument: the command is invalid.
        """
        command = replace(command, actor="test")
        await carry_out(self._ground.executor, self._tenant_id, self.id, command)
