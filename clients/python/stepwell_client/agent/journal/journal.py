"""The journal of one attempt at a step: the entries of earlier attempts, and those of this one.

The first call that needs it reads all of it once. A written entry counts only once the server has
acknowledged it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from stepwell_client.agent.scopes import CodeRun
from stepwell_client.agent.step_output import AttemptRecord
from stepwell_client.agent.step_services import StepServices
from stepwell_client.errors import JournalError, JournalMismatch, LeaseLost
from stepwell_client.link.runtime import Runtime
from stepwell_client.records.decisions import NonRetryable
from stepwell_client.records.limits import JOURNAL_BYTES_MAX, JOURNAL_ENTRIES_MAX
from stepwell_client.records.plans import seconds_of
from stepwell_client.v1 import types_pb2, worker_pb2

END = types_pb2.JOURNAL_MARK_END
BEGIN = types_pb2.JOURNAL_MARK_BEGIN
TRY = types_pb2.JOURNAL_MARK_TRY
WAIT = types_pb2.JOURNAL_MARK_WAIT
WAITS_MAX = 100
"""The most waits in one suspension or one journal write."""
WAITS_BYTES_MAX = 1024 * 1024
"""The most bytes of all these waits together; the commit has each question twice."""
KNOWN_AT_ONCE = 100
"""Ends that are named to the server though no call is to be opened: until then its row of the step lists them."""
FULL_SHARE = 0.75
"""The share of a journal's limits from which the run's log has a warning, once in an attempt."""


_Opening = tuple[worker_pb2.Outcome.SuspendedCall, asyncio.Future[worker_pb2.JournalAck]]


class HeldCall:
    """The entries of one call."""

    __slots__ = ("begins", "end", "tries", "until", "wait")

    def __init__(self) -> None:
        self.end: types_pb2.JournalEntry | None = None
        self.begins: dict[int, types_pb2.JournalEntry] = {}
        """BEGIN entries, by number."""
        self.tries: dict[int, types_pb2.JournalEntry] = {}
        """TRY entries, by number."""
        self.wait: types_pb2.JournalEntry | None = None
        self.until = 0.0
        """With a WAIT entry: the end of the sleep, by the runtime's clock."""

    @property
    def open_begin(self) -> types_pb2.JournalEntry | None:
        """The newest BEGIN whose outcome is unknown, or None."""
        unknown = [number for number in self.begins if number not in self.tries]
        return self.begins[max(unknown)] if unknown and self.end is None else None

    @property
    def entries(self) -> list[types_pb2.JournalEntry]:
        """All its entries."""
        single = [one for one in (self.end, self.wait) if one is not None]
        return [*single, *self.begins.values(), *self.tries.values()]

    @property
    def number(self) -> int:
        """The highest number of its BEGIN and TRY entries."""
        return max((*self.begins, *self.tries), default=0)

    def check(self, key: str, digest: str) -> None:
        """Raise JournalMismatch if the call was recorded with other arguments."""
        if any(one.arguments and one.arguments != digest for one in self.entries):
            raise JournalMismatch(
                f"the journal has the call {key} with other arguments: give this one another key"
            )


class Journal:
    """The entries of a step's journal."""

    def __init__(
        self,
        assignment: worker_pb2.Assignment,
        services: StepServices,
        record: AttemptRecord,
        runtime: Runtime,
    ) -> None:
        self.tries_from = assignment.tries_from
        self.attempt = assignment.execution.attempt
        self.budget_spent = False
        """True if the server reported that the run's budget is spent."""
        self.remaining_budget: types_pb2.Budget | None = None
        """The rest of the run's budget as of the last answer that gave it, or None."""
        self.on_budget: Callable[[], None] = lambda: None
        """Called when the server reports that some budget is left."""
        self._assignment = assignment
        self._services = services
        self.record = record
        self._runtime = runtime
        self._calls: dict[str, HeldCall] = {}
        self._entries = self._bytes = 0
        self._warned = False
        self._asked: dict[str, CodeRun] = {}
        """The keys of this attempt's calls, each with the run of code that last made it."""
        self._replayed: set[str] = set()
        """Prefixes of the keys of calls within replayed calls, which are not made again."""
        self._page_token = ""
        """The token of the entries that are not read yet; empty if all are read."""
        self._reading = asyncio.Lock()
        self._unsettled: set[asyncio.Future[worker_pb2.JournalAck]] = set()
        self._forgets = 0
        """The number of calls dropped in this attempt, which is the number of the last such journal write."""
        self.on_end: Callable[[str], None] = lambda _: None
        """Called with a waiting call's key when the server tells its end."""
        self._opens = 0
        """The number of journal writes of this attempt that opened calls."""
        self._to_open: deque[_Opening] = deque()
        self._opening = False
        """True until such a journal write is answered."""
        self._open_alone = 0
        """The number of the next calls that are opened by a message each, because one of them was refused."""
        self._known: list[str] = []
        """Calls of whose ends the server has known since the last one."""
        self._follows = False
        self._forgetting = asyncio.Lock()
        """Held until such a journal write is answered, so that it and entries are never in flight together."""
        self._take(assignment.journal)

    def _take(self, page: worker_pb2.JournalPage) -> None:
        now = self._runtime.monotonic()
        for held in page.entries:
            self._keep(held.entry, now + seconds_of(held.remaining))
        self._page_token = page.next_page_token

    def _keep(self, entry: types_pb2.JournalEntry, until: float = 0.0) -> None:
        call = self._calls.get(entry.key)
        if call is None:
            call = self._calls[entry.key] = HeldCall()
        if entry.mark == BEGIN:
            call.begins[entry.number] = entry
        elif entry.mark == TRY:
            call.tries[entry.number] = entry
        elif entry.mark == WAIT:
            call.wait, call.until = entry, until
        else:
            call.end = entry
        self._entries += 1
        self._bytes += entry.ByteSize()
        full = max(self._entries / JOURNAL_ENTRIES_MAX, self._bytes / JOURNAL_BYTES_MAX)
        if full >= FULL_SHARE and not self._warned:
            self._warned = self.record.wrote = True
            text = (
                f"the step's journal is {full:.0%} full: {self._entries:,} entries, {self._bytes:,} bytes; "
                f"{JOURNAL_ENTRIES_MAX:,} and {JOURNAL_BYTES_MAX:,} are the most, and then its calls fail"
            )
            self._services.write(self._assignment, text, "WARNING", chunk=False)

    @property
    def is_read(self) -> bool:
        """True if all entries of earlier attempts are read."""
        return not self._page_token

    async def read(self) -> None:
        """Read the entries that didn't fit into the assignment."""
        async with self._reading:
            while self._page_token:
                try:
                    page = await self._services.read_journal(self._assignment, self._page_token)
                except LeaseLost:
                    self.record.cancelled = True
                    raise
                self._take(page)

    def ask(self, key: str, run: CodeRun) -> None:
        """Note that a run of the attempt's code makes the call. Raises JournalError if it made the call before."""
        if self._asked.get(key) is run:
            raise JournalError(f"key={key!r} was used before in this attempt: a key is one call's")
        self._asked[key] = run

    def find(self, key: str) -> HeldCall:
        """Return the entries of a call."""
        return self._calls.get(key) or HeldCall()

    def ended(self, prefix: str, run: CodeRun) -> list[types_pb2.JournalEntry]:
        """Return the END entries of all calls whose keys have this prefix, and note that a run of the code makes them."""
        ends = {
            key: call.end
            for key, call in self._calls.items()
            if call.end is not None and key.startswith(prefix)
        }
        self._asked.update(dict.fromkeys(ends, run))
        return list(ends.values())

    def replay(self, inner_prefix: str) -> None:
        """Note that a call's value comes from the journal, so that its inner calls are not made."""
        self._replayed.add(inner_prefix)

    def unasked(self) -> list[str]:
        """Return the keys of finished, begun or waiting calls that this attempt didn't make."""
        replayed = tuple(self._replayed)
        return [
            key
            for key, call in self._calls.items()
            if key not in self._asked
            and (call.end is not None or call.begins or call.wait is not None)
            and not key.startswith(replayed)
        ]

    async def write(self, entry: types_pb2.JournalEntry) -> float:
        """Return once the entry is stored; for a WAIT, return the seconds left of the sleep.

        Raises:
            JournalMismatch: the journal has other content under this name.
            NonRetryable: the server refused it because it, or the journal, is too large.
            LeaseLost: another worker has the step.
        """
        while self._forgetting.locked():
            async with self._forgetting:
                pass
        write = worker_pb2.JournalWrite(entries=(entry,), forget_number=self._forgets)
        recorded = self._live(await self._send(write))
        state = recorded.entries[0]
        if state.status == worker_pb2.ENTRY_STATUS_MISMATCH:
            raise JournalMismatch(
                f"the journal has another content of the call {entry.key}, which stays: "
                f"{state.failure.message}"
            )
        if state.status == worker_pb2.ENTRY_STATUS_REJECTED:
            raise NonRetryable(state.failure.message, kind=state.failure.kind)
        return seconds_of(state.remaining)

    async def forget(self, key: str) -> None:
        """Drop the entries of a call.

        Raises:
            JournalError: the call has a BEGIN.
            NonRetryable: the server refused it.
            LeaseLost: another worker has the step.
        """
        await self._forgetting.acquire()
        try:
            await self.settled()
            answer = self._send_forget(key)
        except BaseException:
            self._forgetting.release()
            raise
        recorded = self._live(await answer)
        if recorded.HasField("failure"):
            raise NonRetryable(recorded.failure.message, kind=recorded.failure.kind)

    def follow(self) -> None:
        """Take over ends of waiting calls that the server tells, from now on and those that it has known."""
        if not self._follows:
            self._follows = True
            self._services.follow(self._assignment, self._call_ended)

    def _call_ended(self, entry: types_pb2.JournalEntry) -> None:
        self._known.append(entry.key)
        if self.find(entry.key).end is None:
            self._keep(entry)
        self.on_end(entry.key)
        if len(self._known) >= KNOWN_AT_ONCE:
            self._open_next()

    async def open(self, call: worker_pb2.Outcome.SuspendedCall) -> worker_pb2.JournalAck:
        """Have the server open a call that waits; return its answer. Calls that come meanwhile go into one message.

        Raises:
            NonRetryable: the server refused it.
            LeaseLost: another worker has the step.
        """
        opened: asyncio.Future[worker_pb2.JournalAck] = asyncio.get_running_loop().create_future()
        self._to_open.append((call, opened))
        asyncio.get_running_loop().call_soon(self._open_next)
        recorded = self._live(await opened)
        if recorded.HasField("failure"):
            raise NonRetryable(recorded.failure.message, kind=recorded.failure.kind)
        return recorded

    def _open_next(self) -> None:
        """Send the next calls that are to be opened, with the ends that came; many ends also without a call."""
        names_ends = len(self._known) >= KNOWN_AT_ONCE
        if self._opening or not (self._to_open or names_ends):
            return
        batch: list[_Opening] = []
        size = 0
        while self._to_open and len(batch) < (1 if self._open_alone else WAITS_MAX):
            call, opened = self._to_open[0]
            if self.find(call.call).end is not None:
                # An earlier attempt had opened it, and its end came meanwhile. Opened again, it would wait again.
                self._to_open.popleft()
                opened.set_result(worker_pb2.JournalAck())
                continue
            size += call.ByteSize() + 8
            if batch and size > WAITS_BYTES_MAX:
                break
            batch.append(self._to_open.popleft())
        self._opening = bool(batch) or names_ends
        self._open_alone = max(0, self._open_alone - 1)
        if not self._opening:
            return
        known, self._known = self._known[:JOURNAL_ENTRIES_MAX], []
        self._opens += 1
        write = worker_pb2.JournalWrite(
            open=[call for call, _ in batch], open_number=self._opens, known=known
        )
        self._send(write).add_done_callback(partial(self._opened, batch))

    def _opened(self, batch: list[_Opening], answer: asyncio.Future[worker_pb2.JournalAck]) -> None:
        self._opening = False
        if not batch and (answer.cancelled() or answer.exception() is not None):
            return  # Whatever the step sends next meets the same.
        if len(batch) > 1 and answer.result().HasField("failure"):
            # None was opened. Each by itself, those that aren't at fault are.
            self._open_alone = len(batch)
            self._to_open.extendleft(reversed(batch))
        else:
            for _, opened in batch:
                if not opened.done():
                    opened.set_result(answer.result())
        self._open_next()

    async def settled(self) -> None:
        """Wait until everything sent is answered, also what nobody waits for any more."""
        if self._unsettled:
            await asyncio.wait(set(self._unsettled))

    def _send_forget(self, key: str) -> asyncio.Future[worker_pb2.JournalAck]:
        if self.find(key).begins:
            raise JournalError(
                f"the call {key} is AT_MOST_ONCE and has begun: it can't be forgotten"
            )
        self._forgets += 1
        return self._send(worker_pb2.JournalWrite(forget=(key,), forget_number=self._forgets))

    def _send(self, write: worker_pb2.JournalWrite) -> asyncio.Future[worker_pb2.JournalAck]:
        """Send a journal write; return its answer, which is taken over even if the caller is cancelled."""
        future = self._services.write_journal(self._assignment, write)
        self._unsettled.add(future)
        answer: asyncio.Future[worker_pb2.JournalAck] = asyncio.get_running_loop().create_future()
        future.add_done_callback(partial(self._settle, answer, write))
        return answer

    def _settle(
        self,
        answer: asyncio.Future[worker_pb2.JournalAck],
        write: worker_pb2.JournalWrite,
        future: asyncio.Future[worker_pb2.JournalAck],
    ) -> None:
        self._unsettled.discard(future)
        if write.forget:
            self._forgetting.release()
        if future.cancelled():
            answer.cancel()
            return
        error = future.exception()
        if error is None:
            self._take_answer(write, future.result())
        if answer.done():
            return
        if error is None:
            answer.set_result(future.result())
        else:
            answer.set_exception(error)

    def _live(self, recorded: worker_pb2.JournalAck) -> worker_pb2.JournalAck:
        """Return an answer. Raises LeaseLost if another worker has the step."""
        if recorded.lease.status == worker_pb2.LEASE_STATUS_LOST:
            execution_id = self._assignment.execution.execution_id
            raise LeaseLost(f"execution {execution_id} is not wanted any more")
        return recorded

    def _take_answer(self, write: worker_pb2.JournalWrite, recorded: worker_pb2.JournalAck) -> None:
        if recorded.lease.status == worker_pb2.LEASE_STATUS_LOST:
            self.record.cancelled = True
            return
        if write.open:
            return
        if not recorded.HasField("failure"):
            for key in write.forget:
                dropped = self._calls.pop(key, HeldCall()).entries
                self._entries -= len(dropped)
                self._bytes -= sum(one.ByteSize() for one in dropped)
                self._asked.pop(key, None)
        now = self._runtime.monotonic()
        for entry, state in zip(write.entries, recorded.entries, strict=False):
            if state.status == worker_pb2.ENTRY_STATUS_ACCEPTED:
                self._keep(entry, now + seconds_of(state.remaining))
        self.budget_spent = recorded.budget_spent
        if recorded.HasField("remaining_budget"):
            self.remaining_budget = recorded.remaining_budget
        if not recorded.budget_spent:
            self.on_budget()
