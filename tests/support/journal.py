"""A step's journal without a server: it lives on between the attempts at a step, as a store would keep it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from stepwell_client import Agent, current_step, decode
from stepwell_client.internal import AgentRunner, Runtime
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.support.steps import FakeServices, assignment, span

SHORT_SECONDS = 2.0
"""The longest sleep that a step waits for in place."""
Name = tuple[str, int, int]
"""An entry's key, mark and number."""


class InstantRuntime(Runtime):
    """Time that passes as soon as somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def random(self) -> float:
        return 0.5

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        for _ in range(20):  # What else can go on goes on first.
            await asyncio.sleep(0)
        self.now += seconds


class HeldRuntime(InstantRuntime):
    """Time that passes as soon as somebody waits for a moment, and for longer once the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds > SHORT_SECONDS:
            self.slept.append(seconds)
            await self.goes_on.wait()
        else:
            await super().sleep(seconds)


@dataclass
class JournaledServices(FakeServices):
    """Services of a step that keep its journal."""

    runtime: InstantRuntime = field(default_factory=InstantRuntime)
    entries: dict[Name, types_pb2.JournalEntry] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    """The ends of sleeps, by key."""
    is_lost: bool = False
    budget_spent: bool = False
    on_record: Callable[[types_pb2.JournalEntry], None] = lambda entry: None
    """Called before an entry is kept."""
    on_forget: Callable[[str], None] = lambda key: None
    """Called before a call's entries are dropped."""
    rejected: types_pb2.Failure | None = None
    forgotten: list[tuple[str, int]] = field(default_factory=list)
    """Dropped calls, each with the number of its journal write."""
    on_open: Callable[[str], None] = lambda key: None
    """Called when a waiting call was opened, before that is answered."""
    opened: list[worker_pb2.Outcome.SuspendedCall] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    page_entries: int = 1_000
    records: int = 0

    def write_journal(
        self, assignment: Any, write: worker_pb2.JournalWrite
    ) -> asyncio.Future[worker_pb2.JournalAck]:
        future: asyncio.Future[worker_pb2.JournalAck] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(self._answer, future, write)
        return future

    def _answer(
        self,
        future: asyncio.Future[worker_pb2.JournalAck],
        write: worker_pb2.JournalWrite,
    ) -> None:
        recorded = worker_pb2.JournalAck(budget_spent=self.budget_spent)
        if self.is_lost:
            recorded.lease.status = worker_pb2.LEASE_STATUS_LOST
            future.set_result(recorded)
            return
        if (write.forget or write.open) and self.rejected is not None:
            recorded.failure.CopyFrom(self.rejected)
            future.set_result(recorded)
            return
        self.opened += write.open
        for call in write.open:
            self.on_open(call.call)
        self.known += write.known
        for key in write.forget:
            self.forgotten.append((key, write.forget_number))
            self.on_forget(key)
            self.entries = {name: one for name, one in self.entries.items() if name[0] != key}
        for entry in write.entries:
            self.on_record(entry)
            recorded.entries.append(self._written(entry))
        self.records += 1
        future.set_result(recorded)

    def _written(self, entry: types_pb2.JournalEntry) -> worker_pb2.EntryState:
        if self.rejected is not None:
            return worker_pb2.EntryState(
                status=worker_pb2.ENTRY_STATUS_REJECTED, failure=self.rejected
            )
        kept = self.entries.setdefault((entry.key, entry.mark, entry.number), entry)
        if kept != entry:
            return worker_pb2.EntryState(status=worker_pb2.ENTRY_STATUS_MISMATCH)
        state = worker_pb2.EntryState(status=worker_pb2.ENTRY_STATUS_ACCEPTED)
        if entry.mark == types_pb2.JOURNAL_MARK_WAIT:
            sleep = entry.sleep.ToMilliseconds() / 1_000
            self.ends.setdefault(entry.key, self.runtime.now + sleep)
            state.remaining.CopyFrom(span(self.remaining(entry.key)))
        return state

    def put_end(self, key: str, **fields: Any) -> None:
        """End a waiting call, and tell its running step."""
        entry = types_pb2.JournalEntry(key=key, mark=types_pb2.JOURNAL_MARK_END, **fields)
        self.entries[key, entry.mark, 0] = entry
        if self.follower is None:
            self.ended_calls.append(entry)
        else:
            self.follower(entry)

    def remaining(self, key: str) -> float:
        return max(0.0, self.ends.get(key, 0.0) - self.runtime.now)

    def page(self, start: int = 0) -> worker_pb2.JournalPage:
        entries = list(self.entries.values())[start:]
        held = [
            worker_pb2.HeldEntry(entry=entry, remaining=span(self.remaining(entry.key)))
            for entry in entries[: self.page_entries]
        ]
        more = len(entries) > self.page_entries
        token = str(start + self.page_entries) if more else ""
        return worker_pb2.JournalPage(entries=held, next_page_token=token)

    async def read_journal(self, assignment: Any, page_token: str) -> worker_pb2.JournalPage:
        self.reads.append(([], int(page_token)))
        return self.page(int(page_token))


class JournaledStep:
    """One step, attempt after attempt."""

    def __init__(self, **fields: Any) -> None:
        self.services = JournaledServices(**fields)
        self.attempts = 0
        self.tries_from = 1

    async def attempt(
        self, function: Any, *, strict: bool = False, manual_begin: bool = False, **step: Any
    ) -> worker_pb2.Outcome:
        """Run a task's function once more."""
        agent = Agent()
        agent.task(strict=strict, manual_begin=manual_begin)(function)
        self.attempts += 1
        made = assignment(journal=self.services.page(), tries_from=self.tries_from, **step)
        made.execution.attempt = self.attempts
        runner = AgentRunner(agent, self.services.runtime)
        try:
            return await runner.run(made, self.services)
        finally:
            runner.close()

    async def after_crash(self, function: Any) -> Any:
        """Lose an attempt, and return the result of the next one."""
        await crashed(self, function)
        return result_of(await self.attempt(function))

    def keep(self, key: str, mark: types_pb2.JournalMark, **fields: Any) -> None:
        """Put an entry into the journal, as an earlier attempt or an answer would."""
        entry = types_pb2.JournalEntry(key=key, mark=mark, **fields)
        self.services.entries[key, mark, entry.number] = entry

    def kept(self, mark: types_pb2.JournalMark) -> list[types_pb2.JournalEntry]:
        """Return what there is of this kind, in the order in which it was written."""
        return [one for (_, kind, _), one in self.services.entries.items() if kind == mark]


class Crash(BaseException):
    """The end of a process, as far as a step can see it."""


class Counted:
    """A function that counts its runs."""

    def __init__(self, *results: Any) -> None:
        self.runs: list[tuple[Any, ...]] = []
        self._results = list(results)

    async def __call__(self, *arguments: Any) -> Any:
        self.runs.append(arguments)
        result = self._results.pop(0) if self._results else f"done {len(self.runs)}"
        if isinstance(result, BaseException):
            raise result
        return result


def this_step() -> Any:
    """Return the step that the calling function is part of."""
    step = current_step()
    assert step is not None
    return step


def result_of(outcome: Any) -> Any:
    assert outcome.HasField("completed"), outcome
    return decode(outcome.completed.result)


def calls_of(outcome: Any) -> list[str]:
    """Return the calls that a suspended step waits for."""
    assert outcome.HasField("suspended"), outcome
    return [one.call for one in outcome.suspended.waits]


async def crashed(step: JournaledStep, function: Any) -> None:
    with pytest.raises(Crash):
        await step.attempt(function)
