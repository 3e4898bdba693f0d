"""Calls within a step, as a worker makes them: replayed where they are recorded, else made and recorded.

A task of behaviour `calls:5` makes five, one after the other. What a call is follows from its key alone, so that every
attempt makes the same ones; what it returns is new each time, so that a value tells which run of it was kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from stepwell.core.loop.journals import name_of
from stepwell.core.loop.occurrences import (
    Failed,
    NeedsAnswer,
    Result,
    Sleep,
    Suspended,
    SuspendedCall,
    UnknownCall,
)
from stepwell.core.port import Assignment, JournalPage
from stepwell.core.records.journal import Entry
from stepwell.core.records.journal_answers import JournalAnswer, Kept
from stepwell.core.records.model import Failure, Message, Payload, Usage
from stepwell.core.records.states import Effect, JournalMark
from stepwell.engine.journal_writer import NewEntries
from stepwell.engine.journals import JournalAsked
from tests.simulation.simulator.conversation import messages_of
from tests.simulation.simulator.journals import Place
from tests.simulation.simulator.ledger import Ledger
from tests.simulation.simulator.replica import Replica
from tests.simulation.simulator.rng import Rng

T = TypeVar("T")
SLEEP_MS = 1_500
ONE = Usage(input_tokens=1)


class LeaseGone(Exception):
    """The step's lease is lost."""


class Asker(Protocol):
    """Has any replica do something, until there is an answer."""

    def __call__(
        self, name: str, work: Callable[[Replica], Coroutine[Any, Any, T]]
    ) -> Awaitable[T | None]:
        """Return the answer, or None if the step need not go on."""
        ...


class Calls:
    """The calls of one attempt."""

    def __init__(
        self,
        assignment: Assignment,
        ledger: Ledger,
        rng: Rng,
        ask: Asker,
        work: Callable[[], Awaitable[None]],
    ) -> None:
        self._assignment = assignment
        self._model = ledger.journals
        self._rng = rng
        self._ask = ask
        self._work = work
        self._entries: dict[tuple[str, JournalMark, int], Entry] = {}
        self._remaining_ms: dict[str, int] = {}
        run, model = assignment.run, ledger.model((assignment.run.tenant_id, assignment.run.run_id))
        task = model.tasks[assignment.execution.task_id]
        assert model.run is not None
        self.run = model.run
        name = name_of(model.run, task)
        self._place = Place((run.tenant_id, run.run_id), name, task.journal.generation)
        self._made = self._said = self._forgets = 0
        self.signals = ledger.signals
        self._last: Entry | None = None
        """The entry that was sent last, until it is answered."""
        self._written: NewEntries | None = None
        """The entries that were answered last, as they were sent."""

    async def make(self, count: int) -> Result | None:
        """Make the calls; return an outcome that ends the attempt early, None: they are done.

        Raises:
            LeaseGone: the step is another's by now.
        """
        await self._read()
        for number in range(count):
            if (end := await self._call(f"c{number}")) is not None:
                return end
        if self._rng.happens(0.04):
            return Failed(failure=Failure(kind="INVALID_RESULT", message="it can't be used"))
        return None

    def last_message(self) -> tuple[Message, ...]:
        """Return a message for the end of the step; none if the one before it may have been kept."""
        if self._last is not None and self._last.messages:
            return ()
        return self._messages()

    async def _read(self) -> None:
        run, execution = self._assignment.run, self._assignment.execution
        expected = self._model.known(self._place, execution.execution_id)
        page = self._assignment.journal or JournalPage()
        held = list(page.entries)
        while page.cursor:
            asked = JournalAsked(
                run_id=run.run_id,
                execution_id=execution.execution_id,
                token=self._assignment.token,
                cursor=page.cursor,
            )
            page = await self._ask(
                "read journal", partial(Replica.read_journal, tenant_id=run.tenant_id, asked=asked)
            )
            if page is None:
                raise LeaseGone
            held += page.entries
        # A fork reads its parent's, too: a call that is there is in its own journal no more.
        self._model.read(self._place, expected, [one.entry for one in held])
        for one in held:
            entry = one.entry
            self._entries[entry.key, entry.mark, entry.number] = entry
            self._remaining_ms[entry.key] = one.remaining_ms

    async def _call(self, key: str) -> Result | None:
        draw = zlib.crc32(f"{self._place.journal}{key}".encode()) % 8
        if (key, JournalMark.END, 0) in self._entries:
            self._model.replayed()
            return None
        task = self._assignment.task
        if draw < 2 and task is not None and task.effect is Effect.AT_MOST_ONCE:
            draw = 4  # It has begun, and must not wait.
        if draw == 0:
            return await self._sleep(key)
        if draw == 1:
            return await self._wait_for_two(key)
        if draw in (2, 3):
            return await self._once(key)
        await self._plain(key)
        return None

    async def _plain(self, key: str) -> None:
        says = self._messages() if self._rng.happens(0.6) else ()
        end = Entry(key=key, name="plain", usage=ONE, value=self._value(), messages=says)
        self._run(end)
        await self._work()
        if self._rng.happens(0.1):
            await self._record(self._try(key, Effect.IDEMPOTENT))
        await self._record(end)
        if not says and self._rng.happens(0.05):
            await self._forget(key)

    async def _once(self, key: str) -> Result | None:
        once = Effect.AT_MOST_ONCE
        begins = [n for k, mark, n in self._entries if k == key and mark is JournalMark.BEGIN]
        for number in begins:
            if (key, JournalMark.TRY, number) not in self._entries:
                return UnknownCall(call=key, reason=f"begin {number} has no end")
        number = max(begins, default=0) + 1
        begin = Entry(key=key, mark=JournalMark.BEGIN, number=number, effect=once)
        await self._record(begin)
        self._run(begin)
        await self._work()
        if self._rng.happens(0.1):
            await self._record(replace(self._try(key, once), number=number))
            return await self._once(key)
        await self._record(Entry(key=key, effect=once, usage=ONE, value=self._value()))
        return None

    async def _sleep(self, key: str) -> Result | None:
        if (key, JournalMark.WAIT, 0) not in self._entries:
            await self._record(Entry(key=key, mark=JournalMark.WAIT, sleep_ms=SLEEP_MS))
        if ms := self._remaining_ms[key]:
            return Suspended(waits=(SuspendedCall(call=key, wait=Sleep(remaining_ms=ms)),))
        await self._record(Entry(key=key, value=Payload()))
        return None

    async def _wait_for_two(self, key: str) -> Result | None:
        """Wait for a person's answer and, beside it, for the end of a sleep that wakes the step before."""
        nap = f"{key}/nap"
        if (nap, JournalMark.WAIT, 0) not in self._entries:
            await self._record(Entry(key=nap, mark=JournalMark.WAIT, sleep_ms=SLEEP_MS))
        waits = [SuspendedCall(call=key, wait=NeedsAnswer(prompt=key))]
        if ms := self._remaining_ms[nap]:
            waits.append(SuspendedCall(call=nap, wait=Sleep(remaining_ms=ms)))
        return Suspended(waits=tuple(waits))

    def _try(self, key: str, effect: Effect) -> Entry:
        tries = [n for k, mark, n in self._entries if k == key and mark is JournalMark.TRY]
        return Entry(
            key=key,
            mark=JournalMark.TRY,
            number=max(tries, default=0) + 1,
            attempt=self._assignment.execution.attempt,
            effect=effect,
            failure=Failure(kind="Flaky"),
        )

    def _messages(self) -> tuple[Message, ...]:
        return messages_of(self._assignment, self._said, self._said + 1)

    def _value(self) -> Payload:
        self._made += 1
        return Payload(data=f"{self._assignment.token}.{self._made}".encode())

    def _run(self, entry: Entry) -> None:
        self._model.ran(self._place, self._assignment.execution.attempt, entry)

    async def _record(self, entry: Entry) -> None:
        self._last = entry
        answer = await self._send(entries=(entry,))
        self._last = None
        self._said += len(entry.messages)
        kept = answer.entries[0]
        assert isinstance(kept, Kept)
        attempt = self._assignment.execution.attempt
        if kept.accepted:
            self._model.acknowledged(self._place, attempt, (entry,))
        self._entries[entry.key, entry.mark, entry.number] = entry
        self._remaining_ms[entry.key] = kept.remaining_ms

    async def _forget(self, key: str) -> None:
        self._forgets += 1
        await self._send(forget=(key,))
        if self._written is not None and self._rng.happens(0.5):
            # A second one, which a replica had when the first was answered by another.
            tenant_id = self._assignment.run.tenant_id
            await self._ask(
                "late copy", partial(Replica.record, tenant_id=tenant_id, one=self._written)
            )
        self._entries = {name: one for name, one in self._entries.items() if name[0] != key}
        await self._plain(key)

    async def _send(
        self,
        entries: Sequence[Entry] = (),
        forget: Sequence[str] = (),
        opens: Sequence[SuspendedCall] = (),
        open_number: int = 0,
        known: Sequence[str] = (),
    ) -> JournalAnswer:
        run, execution = self._assignment.run, self._assignment.execution
        one = NewEntries(
            run_id=run.run_id,
            execution_id=execution.execution_id,
            token=self._assignment.token,
            entries=entries,
            forget=forget,
            forget_number=self._forgets,
            opens=opens,
            open_number=open_number,
            known=known,
        )
        answer = await self._ask(
            "record", partial(Replica.record, tenant_id=run.tenant_id, one=one)
        )
        if answer is None or not answer.live:
            raise LeaseGone
        if entries:
            self._written = one
        return answer
