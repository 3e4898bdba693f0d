"""Delivers letters of runs to other runs, and removes them from their sender.

The replica whose commit wrote letters delivers them at once. If it can't, the sender's timer comes due, and the
replica that claims it delivers them; it comes due again until none is left. Letters of one sender to one receiver are
delivered in their order, each after the receiver's commit on the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.core.loop import letters, signals, steers
from stepwell.core.loop.child_outcomes import raw_of
from stepwell.core.loop.children import ChildEnd
from stepwell.core.loop.letters import (
    AppendToThread,
    CancelRun,
    LeaveThread,
    LetRunGo,
    Letter,
    PauseRun,
    ResumeRun,
    RunEnded,
    SignalRun,
    StartRun,
)
from stepwell.core.loop.occurrences import (
    Cancel,
    ChildEnds,
    Fork,
    LettersDelivered,
    Occurrence,
    Pause,
    Resume,
    SendSignal,
    SignalSent,
    Start,
    StartInThread,
)
from stepwell.core.loop.state import RunState
from stepwell.core.loop.thread_occurrences import LetGo, RunLeft, RunWrites
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import Commit, JournalQuery, Runtime, Store, TaskQuery, every_row
from stepwell.core.records import limits
from stepwell.core.records.aggregates import runs_of
from stepwell.core.records.errors import NotFound, StepwellError, StoreError
from stepwell.core.records.model import Failure, Payload, Run
from stepwell.core.records.states import RunStatus, TaskStatus
from stepwell.core.records.threads import threads_of
from stepwell.engine.key_types import RunKey
from stepwell.engine.payloads import PayloadCache, Place
from stepwell.logger import get_logger

log = get_logger(__name__)

AT_ONCE_MAX = 64
"""Letters to different receivers that are under way at once."""
REMOVE_SECONDS = 0.1
"""The time for which delivered letters wait to be removed by a commit that their sender makes anyway."""

Numbered = tuple[int, Letter]


class Letters:
    """Delivers the letters of all runs that this replica commits, or claims the timer of."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        post: Callable[[RunKey, Occurrence], asyncio.Future[Reply]],
        held: Callable[[RunKey], RunState | None],
        payloads: PayloadCache,
    ) -> None:
        """`held` returns the state of a run that this replica has in memory."""
        self._store = store
        self._runtime = runtime
        self._post = post
        self._held = held
        self._payloads = payloads
        self._under_way: dict[RunKey, asyncio.Task[None]] = {}
        self._more: set[RunKey] = set()
        """Senders that wrote further letters while theirs were under way."""
        self._delivered: dict[RunKey, int] = {}
        """The last delivered letter of each sender that has yet to remove it."""
        self._removing: asyncio.Task[None] | None = None

    def committed(self, key: RunKey, commit: Commit) -> None:
        """Deliver the letters of a commit that was acknowledged."""
        written = letters.written(commit)
        if not written:
            return
        if key in self._under_way:
            self._more.add(key)
            return
        first = written[0][0]
        if first <= self._delivered.get(key, 0):
            del self._delivered[key]  # The store has lost the letters that were delivered.
        last = max(commit.run.letters.first - 1, self._delivered.get(key, 0))
        self._begin(key, written if first == last + 1 else [])

    def removal(self, key: RunKey) -> LettersDelivered | None:
        """Return the occurrence that removes a sender's delivered letters, or None if none waits for it."""
        last = self._delivered.pop(key, 0)
        return LettersDelivered(last=last) if last else None

    def deliver(self, key: RunKey) -> asyncio.Task[None]:
        """Deliver all letters that the store has of a run, unless they are under way."""
        return self._under_way.get(key) or self._begin(key, [])

    def _begin(self, key: RunKey, known: Sequence[Numbered]) -> asyncio.Task[None]:
        task = self._runtime.spawn(self._deliver(key, known), name=f"letters {key[1]}")
        self._under_way[key] = task
        return task

    async def idle(self) -> None:
        """Wait until no letter is under way, and have the delivered ones removed."""
        while self._under_way:
            await asyncio.wait(tuple(self._under_way.values()))
        self._remove()

    def close(self) -> None:
        """Stop; what isn't delivered stays due."""
        for task in tuple(self._under_way.values()):
            task.cancel()
        if self._removing is not None:
            self._removing.cancel()

    async def _deliver(self, key: RunKey, known: Sequence[Numbered]) -> None:
        """Deliver these letters, or those in the store, and then what was written meanwhile."""
        try:
            if not known and (removal := self.removal(key)) is not None:
                await self._post(key, removal)
            while pending := known or await self._read(key):
                self._more.discard(key)
                signals = await self._take_all(key, pending)
                last, is_all = pending[-1][0], bool(known) and key not in self._more
                if is_all and all(_is_of_child(letter) for _, letter in pending):
                    self._remove_later(key, last)
                else:
                    await self._post(key, LettersDelivered(last=last, signals=signals))
                if is_all and key not in self._more:
                    return
                known = ()
        except NotFound:
            pass  # The sender was deleted.
        except StepwellError as error:
            log.warning("letters are delivered later", run_id=key[1], error=error.message)
        finally:
            del self._under_way[key]
            if key in self._more:
                self._more.discard(key)

    def _remove_later(self, key: RunKey, last: int) -> None:
        """Remove delivered letters by the sender's next commit, or soon by one of its own."""
        self._delivered[key] = last
        if self._removing is None or self._removing.done():
            self._removing = self._runtime.spawn(self._remove_soon(), name="remove letters")

    async def _remove_soon(self) -> None:
        await self._runtime.sleep(REMOVE_SECONDS)
        self._remove()

    def _remove(self) -> None:
        for key in tuple(self._delivered):
            if (removal := self.removal(key)) is not None:
                self._post(key, removal)

    async def _read(self, key: RunKey) -> list[Numbered]:
        """Return the first letters that aren't delivered."""
        query = JournalQuery(
            tenant_id=key[0],
            run_id=key[1],
            journal=letters.JOURNAL,
            generation=letters.GENERATION,
            limit=AT_ONCE_MAX,
        )
        return [letters.read(one.entry) for one in (await self._store.page(query)).items]

    async def _take_all(self, key: RunKey, pending: Sequence[Numbered]) -> tuple[SignalSent, ...]:
        """Have the receivers take letters, several receivers at once, in order for each of them.

        Returns the outcomes of those with signals.
        """
        batch: dict[str, Numbered] = {}
        sent: list[SignalSent] = []
        for number, letter in pending:
            if letter.receiver in batch or len(batch) == AT_ONCE_MAX:
                sent += await self._take_batch(key, batch)
            batch[letter.receiver] = number, letter
        return (*sent, *await self._take_batch(key, batch))

    async def _take_batch(self, key: RunKey, batch: dict[str, Numbered]) -> list[SignalSent]:
        taking = [self._take(key, *numbered) for numbered in batch.values()]
        batch.clear()
        if len(taking) == 1:
            found = [await taking[0]]
        else:
            found = await asyncio.gather(*taking, return_exceptions=True)
        sent: list[SignalSent] = []
        for one in found:
            if isinstance(one, BaseException):
                raise one
            if one is not None:
                sent.append(one)
        return sent

    async def _take(self, key: RunKey, number: int, letter: Letter) -> SignalSent | None:
        """Have a receiver take a letter. A receiver that is missing, or has ended, takes it by that.

        Returns the outcome of a signal.

        Raises:
            StoreError: it may not have been taken.
        """
        to = (runs_of(key[0]), letter.receiver)
        match letter:
            case StartRun():
                await self._start(key, to, letter)
            case LetRunGo(run_id=run_id):
                if isinstance(await self._sent(to, LetGo()), Failure):
                    await self._leave_if_silent(key, run_id)
            case AppendToThread(write=write):
                thread = (threads_of(key[0]), letter.receiver)
                await self._sent(thread, RunWrites(run_id=key[1], letter=number, write=write))
            case LeaveThread():
                await self._leave((threads_of(key[0]), letter.receiver), key[1])
            case CancelRun(reason=reason):
                await self._sent(to, Cancel(reason=reason))
            case PauseRun():
                await self._sent(to, Pause(parent=key[1], letter=number))
            case ResumeRun():
                await self._sent(to, Resume(parent=key[1], letter=number))
            case SignalRun(question_id=question_id):
                signal = SendSignal(
                    name=letter.name,
                    value=letter.value,
                    sender=key[1],
                    letter=number,
                    actor=letter.actor,
                    on_behalf_of=letter.on_behalf_of or ("" if letter.actor else key[1]),
                )
                reply = await self._sent(to, signal)
                failure = reply if isinstance(reply, Failure) else Failure()
                return SignalSent(question_id=question_id, failure=failure)
            case RunEnded(question_id=question_id):
                held = self._held(key)
                if held is not None and number >= held.run.letters.next:
                    held = None  # Another replica has written the letter, and what is in memory is older.
                run = held.run if held is not None else await self._store.get_run(*key)
                if run is None or not run.ended:
                    return None  # It was resumed: its next end has a letter of its own.
                end = await end_of(self._store, self._payloads, run, held)
                await self._sent(to, child_ends(question_id, end, run))
        return None

    async def _start(self, key: RunKey, to: RunKey, letter: StartRun) -> None:
        spec = letter.spec
        given = await self._input_of(key, letter) if letter.results else letter.input
        if letter.results and given is None:
            most = f"{limits.CHILD_INPUT_BYTES_MAX:,} bytes are the most"
            message = f"the task's input is too large with the results that it depends on: {most}"
            reply = Failure(kind="CHILD_TOO_LARGE", message=message, retryable=False)
        else:
            reply = await self._sent(to, start_of(letter, given, waits=letter.waits))
        if letter.spec.thread_id:
            if isinstance(reply, Failure):
                await self._leave(key, spec.run_id)
            elif reply.run is not None and reply.run.ended:
                await self._leave_if_silent(key, spec.run_id)
        elif isinstance(reply, Failure):
            end = ChildEnd(run_id=spec.run_id, status=RunStatus.FAILED, failure=reply)
            await self._sent(key, child_ends(spec.child_of.question_id, end))

    async def _leave_if_silent(self, thread: RunKey, run_id: str) -> None:
        """Tell a thread that a run of it is over whose last letter may have come before the thread knew of the run.

        A run that still has letters says so by the last of them, after the messages that it sends the thread.
        """
        run = await self._store.get_run(runs_of(thread[0]), run_id)
        if run is None or run.letters.first == run.letters.next:
            await self._leave(thread, run_id)

    async def _leave(self, thread: RunKey, run_id: str) -> None:
        """Tell a thread that a run of it has ended, or isn't there, with the signals of the thread that it took."""
        tenant_id = runs_of(thread[0])
        run = await self._store.get_run(tenant_id, run_id)
        taken = run.signals.taken.get(thread[1], 0) if run is not None else 0
        kept: list[int] = []
        if run is not None and taken and run.signals.kept:
            query = JournalQuery(
                tenant_id=tenant_id,
                run_id=run_id,
                journal=signals.JOURNAL,
                generation=signals.generation_of(steers.SIGNAL),
                names_only=True,
            )
            kept = [signals.letter_of(one) async for one in every_row(self._store, query)]
        await self._sent(thread, RunLeft(run_id=run_id, taken=taken, kept=tuple(kept)))

    async def _sent(self, key: RunKey, occurrence: Occurrence) -> Reply | Failure:
        """Post an occurrence; return the reply, or why the run refused it."""
        try:
            reply = await self._post(key, occurrence)
        except StoreError:
            raise
        except StepwellError as error:
            return Failure(kind=error.reason, message=error.message, retryable=False)
        if reply.status is ReplyStatus.REFUSED:
            return Failure(kind=reply.reason, message=reply.message, retryable=False)
        return reply

    async def _input_of(self, key: RunKey, letter: StartRun) -> Payload | None:
        """Return the input of a child that is a task: the task's own, with results and failures by task.

        Returns None if it is larger than `CHILD_INPUT_BYTES_MAX`.
        """
        results: dict[str, Raw] = {}
        failures: dict[str, dict[str, str]] = {}
        room = limits.CHILD_INPUT_BYTES_MAX
        for one in letter.results:
            if not one.result_id:
                failures[one.task_id] = {"kind": one.failure.kind, "message": one.failure.message}
                continue
            run_id = one.run_id or key[1]
            stored = await self._store.read_payloads(key[0], run_id, [one.result_id])
            payload = stored[0].payload if stored else None
            room -= len(payload.data) if payload is not None else 0
            if room < 0:
                return None
            results[one.task_id] = raw_of(payload)
        value = {"input": raw_of(letter.input), "results": results, "failures": failures}
        data = msgspec.json.encode(value)
        return Payload(data=data) if len(data) <= limits.CHILD_INPUT_BYTES_MAX else None


def start_of(
    one: StartRun | StartInThread, given: Payload | None, *, waits: bool = False
) -> Start | Fork:
    """Return the command that creates a run, which may be a fork, with this input."""
    if one.fork is not None:
        return replace(one.fork, spec=one.spec, input=given, waits_for_thread=waits)
    return Start(
        spec=one.spec,
        input=given,
        plan=one.plan,
        stages=one.stages,
        waits_for_thread=waits,
        actor=one.actor,
        on_behalf_of=one.on_behalf_of,
    )


def _is_of_child(letter: Letter) -> bool:
    """Return whether a letter starts a child run, or reports its end: a run's next commit may remove it."""
    return isinstance(letter, RunEnded) or (
        isinstance(letter, StartRun) and not letter.spec.thread_id
    )


def child_ends(question_id: str, end: ChildEnd, run: Run | None = None) -> ChildEnds:
    """Return the occurrence that ends the call of a child's parent; `run`: the child, if it was there."""
    occurrence = ChildEnds(
        question_id=question_id,
        run_id=end.run_id,
        status=end.status,
        value=Payload(data=msgspec.json.encode(end)),
    )
    return occurrence if run is None else replace(occurrence, usage=replace(run.usage, model=""))


async def end_of(store: Store, payloads: PayloadCache, run: Run, held: RunState | None) -> ChildEnd:
    """Return the end of a run, with its results as far as they aren't too large; `held`: its state, if in memory."""
    where = (run.spec.tenant_id, run.spec.run_id)
    end = ChildEnd(run_id=where[1], status=run.status, reason=run.reason, failure=run.failure)
    if run.status is not RunStatus.SUCCEEDED:
        return end
    if run.result_id:
        payload = await _result_of(payloads, where[0], (where[1], run.result_id))
        if payload is not None and len(payload.data) > limits.CHILD_RESULT_BYTES_MAX:
            return replace(end, too_large=True)
        return replace(end, result=payload)
    tasks: dict[str, Payload] = {}
    room = limits.CHILD_RESULT_BYTES_MAX
    query = TaskQuery(tenant_id=where[0], run_id=where[1], limit=limits.PAGE_SIZE_MAX)
    rows = held.tasks.values() if held else [one async for one in every_row(store, query)]
    for task in rows:
        if task.status is not TaskStatus.COMPLETED or not task.result_id:
            continue
        place = (task.result_run_id or where[1], task.result_id)
        if (payload := await _result_of(payloads, where[0], place)) is None:
            continue
        room -= len(payload.data) + len(task.task_id.encode())
        if room < 0:
            return replace(end, too_large=True)
        tasks[task.task_id] = payload
    return replace(end, tasks=tasks)


async def _result_of(payloads: PayloadCache, tenant_id: str, place: Place) -> Payload | None:
    return (await payloads.get(tenant_id, [place], limits.PAYLOAD_BYTES_MAX))[place]
