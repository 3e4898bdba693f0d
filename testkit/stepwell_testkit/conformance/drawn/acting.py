"""The calls of programs: each asks a driver and the reference the same, and compares the answers.

The reference is a new memory store for each program. Programs share the driver's store, so they
leave nothing behind. Where the port leaves something open (the order of equals in a claim, the
order between runs in the feed, the ends of pages), only what it promises is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    NOBODY,
    Claim,
    Claimed,
    Commit,
    EndedQuery,
    ExecutionQuery,
    FeedEntry,
    FeedQuery,
    JournalQuery,
    JournalWrite,
    KeySwap,
    LogQuery,
    LogsOfExecution,
    MessageQuery,
    OldLogs,
    OpenExecution,
    Presence,
    PresenceQuery,
    Query,
    QuestionQuery,
    ReadyStep,
    Renewal,
    Reservation,
    RunQuery,
    Store,
    TaskQuery,
    Want,
)
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import LogEntry, Payload, Session
from stepwell.core.records.states import LogKind, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.wire.store import KINDS as QUERIES
from stepwell_testkit.conformance.drawn.calls import Change, Check, Swap
from stepwell_testkit.conformance.drawn.compare import (
    Differs,
    Reader,
    answered,
    brief,
    listed,
    loaded,
    must_equal,
)
from stepwell_testkit.conformance.drawn.known import Key, Known
from stepwell_testkit.conformance.drawn.making import commit_of, lease_of
from stepwell_testkit.conformance.drawn.names import (
    EXECUTIONS,
    HALF_MS,
    HOLD_MS,
    NONSENSE,
    PASSED_MS_MAX,
    PERIOD_MS,
    QUESTIONS,
)
from stepwell_testkit.conformance.drawn.subject import Subject
from stepwell_testkit.runtime import ManualRuntime

ANSWER_S_MAX = 30
"""A call that takes longer counts as hung."""
LIMIT_MAX = 10_000
PATIENCE = 200
"""The number of repetitions, 10 ms apart, of a question whose answer may lag behind."""
GROUPS: Mapping[object, str] = {
    "append_logs": "logs",
    "trim_logs": "logs",
    "purge_logs": "logs",
    "read_on": "logs",
    "delete": "delete",
    "feed": "feed",
    "put_presence": "presence",
    "record": "journal",
    JournalQuery: "journal",
    LogQuery: "logs",
    FeedQuery: "feed",
    EndedQuery: "retention",
    PresenceQuery: "presence",
}
"""The optional group of the contract that a call or a query needs."""

T = TypeVar("T")
Ask = Callable[[Store], Awaitable[object]]


class Calls:
    """The calls of one running program: its public methods."""

    def __init__(self, subject: Subject, reference: Store, runtime: ManualRuntime, number: int):
        self.subject = subject
        self.reference = reference
        self.runtime = runtime
        self.known = Known(number)
        self.log: list[str] = []
        """Each call as executed."""
        self._via = 0
        self._hints: list[tuple[str, str, int]] = []
        self._feeds: tuple[tuple[Reader, Reader], ...] = ()
        self._read_on: dict[tuple[Key, str], tuple[Reader, Reader]] = {}
        """Readers of a log in the reference and in the driver's store, by run and execution."""
        self._stop_hints: Callable[[], None] | None = None

    # --- writing ---

    async def commit(self, changes: tuple[Change, ...]) -> None:
        # Made one by one as the reference applies them, so that each builds on the actual state.
        commits: list[Commit] = []
        expected: list[Verdict] = []
        for change in changes:
            if "journal" in self.subject.left_out:
                fences = tuple(replace(one, recorded=None) for one in change.fences)
                change = replace(change, entries=(), forgotten=(), fences=fences)
            commit = commit_of(change, self.known)
            if commit is None:
                continue
            is_fork = commit.version == 1 and commit.run.spec.parent_run_id
            if is_fork and commits:
                # Commits of several runs have no order, and this commit depends on which was
                # created first.
                continue
            commits.append(commit)
            (result,) = await self.reference.commit([commit])
            expected.append(result.verdict)
            if result.verdict is Verdict.COMMITTED:
                self.known.learn(commit)
            if is_fork:
                break
        self.log.append(f"commit {brief(commits)}")

        async def verdicts(store: Store) -> object:
            return [result.verdict for result in await store.commit(commits)]

        must_equal(expected, await self._driver(verdicts))

    async def renew(
        self,
        beats: tuple[Check, ...],
        lease_ms: int,
        progress: Payload | None,
        session: Session,
    ) -> None:
        renewals: dict[tuple[Key, str], Renewal] = {}
        for check in beats:
            grant = lease_of(check, self.known)
            if grant is not None:
                renewals[grant.key, grant.execution_id] = Renewal(
                    tenant_id=grant.key[0],
                    run_id=grant.key[1],
                    execution_id=grant.execution_id,
                    token=grant.token,
                    lease_ms=lease_ms,
                    progress=progress,
                    session=session,
                )
        asked = list(renewals.values())

        async def renewed(store: Store) -> object:
            return list(await store.renew(asked))

        held = await self._both(f"renew {brief(asked)}", renewed)
        for beat, is_held in zip(asked, cast("list[bool]", held), strict=True):
            if is_held:
                self.known.renewed(beat)

    async def record(
        self,
        lease: Check,
        journal: str,
        generation: int,
        entries: tuple[Entry, ...],
        forget_number: int,
    ) -> None:
        grant = lease_of(lease, self.known)
        if grant is None:
            return
        write = JournalWrite(
            tenant_id=grant.key[0],
            run_id=grant.key[1],
            execution_id=grant.execution_id,
            token=grant.token,
            journal=journal,
            generation=generation,
            entries=entries,
            forget_number=forget_number,
        )

        async def recorded(store: Store) -> object:
            (answer,) = await store.write_journal([write])
            accepted = [(one.accepted, bool(one.until_us)) for one in answer.written]
            return answer.live, answer.late, accepted, answer.totals

        await self._both(f"record {brief(write)}", recorded)
        for row in await self._open(grant.key):
            self.known.recorded[row.token] = row.recorded.entries

    async def _open(self, key: Key) -> tuple[OpenExecution, ...]:
        rows = await self.reference.load(*key)
        return rows.executions if rows is not None else ()

    async def put_presence(self, tenant: int, presences: tuple[Presence, ...], ttl_ms: int) -> None:
        tenant_id = self.known.tenants[tenant]
        once = {(one.worker_id, one.instance_id): one for one in presences}
        asked = [replace(one, tenant_id=tenant_id) for one in once.values()]
        text = f"put_presence {brief(asked)} for {ttl_ms} ms"
        await self._both(text, lambda store: store.put_presence(asked, ttl_ms=ttl_ms))
        await self._list(PresenceQuery(tenant_id=tenant_id))

    async def append_logs(self, tenant: int, run: str, entries: tuple[LogEntry, ...]) -> None:
        key = self.known.key(tenant, run)
        asked = [replace(one, text=f"{self.known.number()} {one.text}") for one in entries]
        text = f"append_logs {key} {brief(asked)}"
        await self._both(text, lambda store: store.append_logs(*key, asked))

    async def trim_logs(self, tenant: int, run: str, execution_id: str, kind: LogKind) -> None:
        tenant_id, run_id = self.known.key(tenant, run)
        which = LogsOfExecution(
            tenant_id=tenant_id, run_id=run_id, execution_id=execution_id, kind=kind
        )
        await self._both(f"remove_logs {brief(which)}", lambda store: store.remove_logs(which))

    async def purge_logs(self, older_ms: int, limit: int) -> None:
        which = OldLogs(older_ms=older_ms, limit=limit)

        async def purged(store: Store) -> object:
            removed = [await store.remove_logs(which)]
            while removed[-1] >= limit:
                removed.append(await store.remove_logs(which))
            return sum(removed)

        await self._both(f"remove_logs {brief(which)} until there are no more", purged)

    async def delete(self, tenant: int, run: str, off: int) -> None:
        key = self.known.key(tenant, run)
        for tenant_id, pipeline_id, name in self.known.not_held(key):
            # The store may or may not release these at the deletion.
            await self._swap(tenant_id, pipeline_id, (Swap(key=name, right=True),))
        head = self.known.heads.get(key)
        version = max((head.version if head is not None else 0) + off, 0)
        text = f"delete_run {key} at version {version}"
        if await self._both(text, lambda store: store.delete_run(*key, version=version)):
            self.known.delete(key)
            for name in [name for name in self._read_on if name[0] == key]:
                del self._read_on[name]

    async def swap_keys(self, tenant: int, pipeline_id: str, swaps: tuple[Swap, ...]) -> None:
        await self._swap(self.known.tenants[tenant], pipeline_id, swaps)

    async def _swap(self, tenant_id: str, pipeline_id: str, swaps: tuple[Swap, ...]) -> None:
        known = self.known
        places = [(tenant_id, pipeline_id, swap.key) for swap in swaps]
        asked = [
            KeySwap(
                key=swap.key,
                before=known.reserved.get(place, NOBODY) if swap.right else swap.before,
                after=swap.after,
            )
            for place, swap in zip(places, swaps, strict=True)
        ]

        async def swapped(store: Store) -> object:
            return list(await store.swap_keys(tenant_id, pipeline_id, asked))

        stands = await self._both(
            f"swap_keys {tenant_id!r} {pipeline_id!r} {brief(asked)}", swapped
        )
        for place, one in zip(places, cast("list[Reservation]", stands), strict=True):
            known.swapped(place, one)

    # --- claims ---

    async def claim(
        self, wants: tuple[tuple[int, Want], ...], due_limit: int, *, hold: bool
    ) -> None:
        named = [replace(want, tenant_id=self.known.tenants[tenant]) for tenant, want in wants]
        request = Claim(
            wants=await self._without_ties(named),
            due_limit=await self._due_limit(due_limit),
            hold_ms=HOLD_MS if hold else 0,
        )
        self.log.append(f"claim {brief(request)}")
        expected = await self.reference.claim(request)
        got = await self._driver(lambda store: store.claim(request))
        if not isinstance(got, Claimed):
            raise Differs(f"the reference: {brief(expected)}\n  the driver:    {brief(got)}")
        must_equal(_claimed(expected), _claimed(got))
        self._must_be_in_order(expected, got)

    async def _without_ties(self, wants: list[Want]) -> tuple[Want, ...]:
        """Extend each limit that falls between equals, any of which a store may return."""
        wide: list[Want] = []
        for want in wants:
            asked = Claim(wants=(*wide, replace(want, limit=LIMIT_MAX)), due_limit=0, hold_ms=0)
            places = [
                self.known.place_of(one) for one in (await self.reference.claim(asked)).ready[-1]
            ]
            wide.append(replace(want, limit=_widened(want.limit, places)))
        return tuple(wide)

    async def _due_limit(self, limit: int) -> int:
        asked = Claim(due_limit=LIMIT_MAX, hold_ms=0)
        moments = [self.known.moment_of(one) for one in (await self.reference.claim(asked)).due]
        return _widened(limit, moments)

    def _must_be_in_order(self, expected: Claimed, got: Claimed) -> None:
        for steps, same in zip(got.ready, expected.ready, strict=True):
            places = [self.known.place_of(one) for one in steps]
            if places != sorted(places):
                raise Differs(f"the ready steps are out of order: {brief(steps)}")
            waited = {_names(one): one.waited_ms for one in same}
            for one in steps:
                if abs(one.waited_ms - waited[_names(one)]) > HALF_MS:
                    raise Differs(f"it waited {waited[_names(one)]} ms: {brief(one)}")
        moments = [self.known.moment_of(one) for one in got.due]
        if moments != sorted(moments):
            raise Differs(f"what is due is out of order: {brief(got.due)}")

    # --- time ---

    async def wait(self, periods: int) -> None:
        ms = periods * PERIOD_MS
        self.log.append(f"{ms} ms pass")
        if self.known.now_ms + ms < PASSED_MS_MAX:
            await self.subject.factory.advance(ms)
            self.runtime.advance(ms)
            self.known.now_ms += ms

    async def reopen(self) -> None:
        self.log.append("the store is closed and opened again")
        if self._stop_hints is not None:
            self._stop_hints()
        before = await (await self.subject.connection(0)).describe()
        await self.subject.reopen()
        after = await (await self.subject.connection(0)).describe()
        must_equal(before.store_id, after.store_id)
        self._listen(await self.subject.connection(0))
        # A restart may forget holds, so they expire first.
        await self.wait(1)

    def _listen(self, store: Store) -> None:
        def notify(tenant_id: str, run_id: str, version: int) -> None:
            self._hints.append((tenant_id, run_id, version))

        self._stop_hints = store.subscribe(notify)

    # --- reading ---

    async def load(self, tenant: int, run: str, since: int) -> None:
        await self._load(self.known.key(tenant, run), since)

    async def _load(self, key: Key, since: int) -> None:
        self.log.append(f"load {key} since {since}, and get_run")
        expected = await loaded(self.reference, key, since)
        got = cast("Any", await self._driver(lambda store: loaded(store, key, since)))
        if type(got) is list and (expected[0] is None or got[0] is None):
            # A store may return the whole run instead of the changes.
            expected[0] = got[0] = None
        must_equal(expected, cast("object", got))

    async def read_by_key(self, tenant: int, run: str) -> None:
        await self._read_by_key(self.known.key(tenant, run))

    async def _read_by_key(self, key: Key) -> None:
        names = [named.execution_id for named in EXECUTIONS]
        revisions = range(self.known.plans.get(key, 0) + 2)

        async def read(store: Store) -> object:
            return (
                list(await store.read_payloads(*key, [*names, "nobody's", INPUT_KEY])),
                list(await store.read_payloads(*key, [*reversed(names), INPUT_KEY], texts=True)),
                [await store.read_plan(*key, revision) for revision in revisions],
                list(await store.read_questions(*key, [*reversed(QUESTIONS), "nobody's"])),
                [await store.read_base(*key, version=version) for version in (0, 1, 2, 4, 100)],
            )

        await self._both(f"what is read by key of {key}", read)

    async def read_events(self, tenant: int, run: str, after: int, limit: int) -> None:
        await self._events(self.known.key(tenant, run), after, limit)

    async def _events(self, key: Key, after: int, limit: int) -> None:
        text = f"read_events {key} after {after}, limit {limit}"
        await self._both(text, lambda store: store.read_events(*key, after=after, limit=limit))

    async def page(self, kind: str, tenant: int, run: str = "", **fields: object) -> None:
        names = {"tenant_id": self.known.tenants[tenant], **({"run_id": run} if run else {})}
        (query,) = (one for one in QUERIES if one.__name__ == kind)
        await self._list(cast("Query[Any]", msgspec.convert({**names, **fields}, query)))

    async def _list(self, query: Query[Any]) -> None:
        """Read all pages of a query, if the driver keeps such rows."""
        is_plain = not isinstance(query, RunQuery) or query == RunQuery(
            tenant_id=query.tenant_id, limit=query.limit
        )
        group = GROUPS.get(cast("object", type(query)), "") if is_plain else "filters"
        if group not in self.subject.left_out:
            text = f"{type(query).__name__} {brief(query)}"
            await self._both(text, lambda store: listed(store, query))

    async def nonsense(self, what: int) -> None:
        """Ask with an invalid cursor."""
        if not self.known.heads:
            return
        tenant_id, run_id = next(iter(self.known.heads))
        names: dict[str, Any] = {"tenant_id": tenant_id, "run_id": run_id, "cursor": NONSENSE}
        of_run = [kind(**names) for kind in (TaskQuery, ExecutionQuery, MessageQuery, LogQuery)]
        of_tenant = [
            kind(tenant_id=tenant_id, cursor=NONSENSE) for kind in (RunQuery, QuestionQuery)
        ]
        query = [*of_run, *of_tenant, QuestionQuery(**names), FeedQuery(cursor=NONSENSE)][what]
        await self._list(query)

    async def feed(self, reader: int, limit: int, *, to_the_end: bool) -> None:
        """Read the feed of all tenants or of one from the last position."""
        self.log.append(f"feed {reader} by {limit}{' to its end' * to_the_end}")
        mine, its = self._feeds[reader]
        if not to_the_end:
            await mine.page(self.reference, limit)
            await self._driver(lambda store: its.page(store, limit))
            return
        await mine.read(self.reference, limit)
        for _ in range(PATIENCE):
            await self._driver(lambda store: its.read(store, limit))
            if len(self._fed(its)) >= len(self._fed(mine)):
                break
            await SystemRuntime().sleep(0.01)
        must_equal(self._fed(mine), self._fed(its))

    def _fed(self, reader: Reader) -> list[FeedEntry]:
        """Return the existing runs and deletions of a feed, in an order that stores need not keep."""
        entries = cast("list[FeedEntry]", reader.rows)
        rows = [
            one
            for one in entries
            if (one.tenant_id, one.run_id) in self.known.heads
            or (one.deleted and one.tenant_id in self.known.tenants)
        ]
        return sorted(rows, key=lambda one: (one.tenant_id, one.run_id))

    async def read_on(self, tenant: int, run: str, execution_id: str, limit: int) -> None:
        """Read a log from its last cursor."""
        key = self.known.key(tenant, run)
        if key not in self.known.heads:
            return
        query = LogQuery(tenant_id=key[0], run_id=run, execution_id=execution_id)
        readers = self._read_on.setdefault((key, execution_id), (Reader(query), Reader(query)))
        self.log.append(
            f"the log of {key}, {execution_id!r} by {limit}, from where it was read last"
        )
        expected = await readers[0].read(self.reference, limit)
        must_equal(expected, await self._driver(lambda store: readers[1].read(store, limit)))

    # --- both ---

    async def _both(self, text: str, ask: Ask) -> object:
        """Ask both, check that they agree, and return the answer."""
        self.log.append(text)
        expected = await answered(ask(self.reference))
        must_equal(expected, await self._driver(ask))
        return expected

    async def _driver(self, ask: Ask) -> object:
        async with asyncio.timeout(ANSWER_S_MAX):
            return await answered(ask(await self.subject.connection(self._via)))


def _claimed(claimed: Claimed) -> object:
    """Return the claimed items in our order; times and `next_due_ms` are not compared."""
    ready = [sorted((*_names(one), one.version) for one in steps) for steps in claimed.ready]
    due = sorted(
        (one.tenant_id, one.run_id, one.kind, one.name, one.token, one.version)
        for one in claimed.due
    )
    return ready, due


def _names(step: ReadyStep) -> tuple[str, str, str]:
    return step.tenant_id, step.run_id, step.execution_id


def _widened(limit: int, places: list[T]) -> int:
    """Return the limit, or the next larger one that doesn't fall between equals."""
    while 0 < limit < len(places) and places[limit] == places[limit - 1]:
        limit += 1
    return limit
