"""Plays a program on a driver and on the reference side by side, and compares every answer.

The reference is a memory store of its own for each program; the driver's store is shared by many, so a
program leaves nothing behind. Where the port leaves something open (the order of equals in a claim,
the order between runs in the feed, where pages end), no more than what it says is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product
from typing import TypeVar, cast

from msgspec.structs import replace

from stepwell.core.port import ANY_ROLE, Claimed, ClaimRequest, Commit, Renewal, Store, Want
from stepwell.core.records.model import LogEntry, Session
from stepwell.core.records.states import LogKind, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.runtime import ManualRuntime
from tests.contract.differential import calls as c
from tests.contract.differential import reading
from tests.contract.differential.answers import (
    answered,
    claimed_of,
    renewed,
    step_of,
    verdicts,
    widened,
)
from tests.contract.differential.asking import (
    Ask,
    asked_of,
    everything,
    group_of,
    the_log_of,
    what_is_left,
)
from tests.contract.differential.compare import Differs, brief, must_equal
from tests.contract.differential.known import Key, Known
from tests.contract.differential.making import commit_of, delay_of, lease_of, pick, presences_of
from tests.contract.differential.names import (
    EXECUTIONS,
    HALF_MS,
    HOLD_MS,
    KEYS,
    KINDS,
    PASSED_MS_MAX,
    PAYLOADS,
    PERIOD_MS,
    PIPELINES,
    QUEUES,
    QUEUES_WANTED,
    ROLES_WANTED,
    RUNS,
    TEXTS,
)
from tests.contract.differential.subject import Subject

ANSWER_S_MAX = 30
"""A call that takes longer has hung."""
LIMIT_MAX = 10_000
TURNS = 5
"""Turns of the event loop, in which hints come that were called for."""
PATIENCE = 200
"""A feed may lag behind for a moment: so often it is asked again, at 10 ms each."""

T = TypeVar("T")


class Player:
    """One program under way."""

    def __init__(self, subject: Subject, reference: Store, runtime: ManualRuntime, number: int):
        self.subject = subject
        self.reference = reference
        self.runtime = runtime
        self.known = Known(number)
        self.log: list[str] = []
        """Each call as it really was."""
        self.hints: list[tuple[str, str, int]] = []
        self.feeds: tuple[tuple[reading.FeedReader, reading.FeedReader], ...] = ()
        self.read_on: dict[tuple[Key, int], tuple[reading.LogReader, reading.LogReader]] = {}
        self._stop_hints: Callable[[], None] | None = None

    @classmethod
    async def start(cls, subject: Subject, number: int) -> Player:
        """Return a program that has done nothing yet."""
        runtime = ManualRuntime(f"reference {number}")
        player = cls(subject, await open_store("memory://", runtime=runtime), runtime, number)
        store = await subject.connection(0)
        mine = player.known.tenants
        player._listen(store)
        if "feed" in subject.left_out:
            return player
        ends = [await reading.end_of_feed(one) for one in (player.reference, store)]
        player.feeds = (
            (reading.FeedReader("", ends[0], mine), reading.FeedReader("", ends[1], mine)),
            (reading.FeedReader(mine[1], "", mine), reading.FeedReader(mine[1], "", mine)),
        )
        return player

    async def play(self, call: c.AnyCall) -> None:
        """Play one call.

        Raises:
            Differs: the driver's answer differs from the reference's.
        """
        if group_of(call) in self.subject.left_out:
            return
        match call:
            case c.CommitCall():
                await self._commit(call)
            case c.RenewCall():
                await self._renew(call)
            case c.ClaimCall():
                await self._claim(call)
            case c.PassCall():
                await self._pass(call.periods)
            case c.FeedCall():
                await self._feed(call)
            case c.ReadOnCall():
                await self._read_on(call)
            case c.DeleteCall():
                await self._delete(call)
            case c.PresenceCall():
                await self._presence(call)
            case c.LogCall():
                await self._log(call)
            case c.TrimCall():
                await self._trim(call)
            case c.PurgeCall():
                await self._purge(call)
            case c.FindCall():
                await self._find(call)
            case c.ReopenCall():
                await self._reopen()
            case _:
                await self._read(call)

    async def finish(self) -> None:
        """Compare all that can be read, then delete it all and see that it is gone."""
        known = self.known
        await self._dump("at the end")
        if "keyed" not in self.subject.left_out:
            for tenant, pipeline in product(range(2), range(len(PIPELINES))):
                await self._find(c.FindCall(tenant=tenant, pipeline=pipeline))
        if "logs" not in self.subject.left_out:
            await self._shorten_logs()
        for reader in range(len(self.feeds)):
            await self._feed_to_the_end(0, reader, 100)
        for _ in range(TURNS):
            await SystemRuntime().sleep(0)
        for tenant_id, run_id, version in self.hints:
            if version > known.reached.get((tenant_id, run_id), version):
                raise Differs(f"a hint of version {version} of {run_id!r}, which never was there")
        if "delete" not in self.subject.left_out:
            self.log.append("everything is deleted")
            for key, head in tuple(known.heads.items()):
                version = head.version
                await self._both(0, lambda s, k=key, v=version: s.delete_run(*k, version=v))
                known.delete(key)
                # One by one: each may leave something to the others.
                for text, ask in what_is_left(known):
                    self.log.append(f"when {key} is deleted: {text}")
                    await self._both(0, ask)
                    self.log.pop()
            await self._must_stay_deleted()
            await self._dump("when all is deleted")
            must_equal([], await self._left())

    async def _shorten_logs(self) -> None:
        """Trim each log, purge them all, and compare what stays."""
        for tenant, run in product(range(2), range(len(RUNS))):
            if self.known.key(tenant, run) in self.known.heads:
                await self._trim(c.TrimCall(tenant=tenant, run=run))
        for periods in (1, 0):
            for key in self.known.heads:
                text, ask = the_log_of(key)
                self.log.append(text)
                await self._both(0, ask)
            await self._purge(c.PurgeCall(periods=periods, limit=2))

    async def close(self) -> None:
        """Let go of the reference, and leave nothing in the driver's store."""
        if self._stop_hints is not None:
            self._stop_hints()
        await self.reference.close()
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                left = await self._cleaned()
        except Exception:
            left = True
        if left:
            await self.subject.drop()

    async def _cleaned(self) -> bool:
        """Delete what a program that failed has left; returns whether something stays."""
        if "delete" in self.subject.left_out:
            return True
        store = await self.subject.connection(0)
        for key in self.known.run_keys:
            run = await store.get_run(*key)
            if run is not None:
                await store.delete_run(*key, version=run.version)
        return bool(await self._left())

    async def _left(self) -> list[object]:
        """Return what a claim still returns: of this program, or, of what is due, of any before."""
        wants = tuple(
            Want(tenant_id=tenant_id, queues=QUEUES, kinds=KINDS[0], roles=(ANY_ROLE,), limit=100)
            for tenant_id in self.known.tenants
        )
        claimed = await (await self.subject.connection(0)).claim(
            ClaimRequest(wants=wants, hold_ms=0)
        )
        return [*(one for steps in claimed.ready for one in steps), *claimed.due]

    async def _must_stay_deleted(self) -> None:
        """Create each deleted run again: its tombstone refuses that."""
        creations = tuple(
            c.Change(tenant=tenant, run=run, base=c.Base.CREATE)
            for tenant in range(2)
            for run in range(len(RUNS))
            if self.known.key(tenant, run) in self.known.deleted
        )
        await self._commit(c.CommitCall(changes=creations))

    async def _dump(self, when: str) -> None:
        for text, ask in everything(self.known, self.subject.left_out):
            self.log.append(f"{when}: {text}")
            await self._both(0, ask)
            self.log.pop()

    # --- writing ---

    async def _commit(self, call: c.CommitCall) -> None:
        # Made one by one as the reference applies them, so that each builds on what is really there.
        commits: list[Commit] = []
        expected: list[Verdict] = []
        for change in call.changes:
            commit = commit_of(change, self.known)
            if commit is None:
                continue
            is_fork = commit.version == 1 and commit.run.spec.parent_run_id
            if is_fork and commits:
                # Commits of several runs have no order, and this one depends on which was created before.
                continue
            commits.append(commit)
            (result,) = await self.reference.commit([commit])
            expected.append(result.verdict)
            if result.verdict is Verdict.COMMITTED:
                self.known.learn(commit)
            if is_fork:
                break
        self.log.append(f"commit {brief(commits)}")
        must_equal(
            expected, await self._driver(call.connection, lambda store: verdicts(store, commits))
        )

    async def _renew(self, call: c.RenewCall) -> None:
        beats: dict[tuple[Key, str], Renewal] = {}
        for check in call.beats:
            grant = lease_of(check, self.known)
            if grant is not None:
                beats[grant.key, grant.execution_id] = Renewal(
                    tenant_id=grant.key[0],
                    run_id=grant.key[1],
                    execution_id=grant.execution_id,
                    token=grant.token,
                    lease_ms=delay_of(call.lease),
                    progress=pick(PAYLOADS, call.progress),
                    session=Session(backend="x\x00", session_id="s") if call.session else Session(),
                )
        asked = list(beats.values())
        self.log.append(f"renew {brief(asked)}")
        held = await self._both(call.connection, lambda store: renewed(store, asked))
        for beat, is_held in zip(asked, cast("list[bool]", held), strict=True):
            if is_held:
                self.known.renewed(beat)

    async def _presence(self, call: c.PresenceCall) -> None:
        tenant_id = self.known.tenants[call.tenant]
        presences = presences_of(tenant_id, call)
        ttl_ms = delay_of(call.ttl)
        self.log.append(f"put_presence {brief(presences)} for {ttl_ms} ms, list_presence")

        async def ask(store: Store) -> object:
            await store.put_presence(presences, ttl_ms=ttl_ms)
            return await reading.presences(store, tenant_id)

        await self._both(call.connection, ask)

    async def _log(self, call: c.LogCall) -> None:
        key = self.known.key(call.tenant, call.run)
        entries = [
            LogEntry(
                execution_id=pick(EXECUTIONS, name).execution_id,
                text=f"{self.known.number()} {pick(TEXTS, text)}",
                level=pick(("INFO", "", "é"), text),
                kind=pick(list(LogKind), text),
                written_us=text,
            )
            for name, text in call.lines
        ]
        self.log.append(f"append_logs {key} {brief(entries)}")
        await self._both(call.connection, lambda store: store.append_logs(*key, entries))

    async def _trim(self, call: c.TrimCall) -> None:
        key = self.known.key(call.tenant, call.run)
        execution_id = pick(EXECUTIONS, call.name).execution_id
        kind = pick(list(LogKind), call.kind)
        self.log.append(f"trim_logs {key} {execution_id!r} {kind}")
        await self._both(
            call.connection,
            lambda store: reading.trimmed(store, key, execution_id, kind),
        )

    async def _purge(self, call: c.PurgeCall) -> None:
        older_ms = call.periods * PERIOD_MS + HALF_MS
        self.log.append(f"purge_logs older than {older_ms} ms, {call.limit} at once")
        await self._both(call.connection, lambda store: reading.purged(store, older_ms, call.limit))

    async def _delete(self, call: c.DeleteCall) -> None:
        key = self.known.key(call.tenant, call.run)
        head = self.known.heads.get(key)
        version = max((head.version if head is not None else 0) + call.off, 0)
        self.log.append(f"delete_run {key} at version {version}")
        if await self._both(call.connection, lambda store: store.delete_run(*key, version=version)):
            self.known.delete(key)
            for name in [name for name in self.read_on if name[0] == key]:
                del self.read_on[name]

    # --- claims ---

    async def _claim(self, call: c.ClaimCall) -> None:
        wants = tuple(
            Want(
                tenant_id=self.known.tenants[one.tenant],
                queues=pick(QUEUES_WANTED, one.queues),
                kinds=pick(KINDS, one.kinds),
                roles=pick(ROLES_WANTED, one.roles),
                limit=one.limit,
            )
            for one in call.wants
        )
        wants = await self._without_ties(wants)
        request = ClaimRequest(
            wants=wants,
            due_limit=await self._due_limit(call.due_limit),
            hold_ms=HOLD_MS if call.hold and self.subject.moves else 0,
        )
        self.log.append(f"claim {brief(request)}")
        expected = await self.reference.claim(request)
        got = await self._driver(call.connection, lambda store: store.claim(request))
        if not isinstance(got, Claimed):
            raise Differs(f"the reference: {brief(expected)}\n  the driver:    {brief(got)}")
        must_equal(claimed_of(expected), claimed_of(got))
        self._must_be_in_order(expected, got)

    async def _without_ties(self, wants: tuple[Want, ...]) -> tuple[Want, ...]:
        """Widen each limit that falls between equals, any of which a store may return."""
        wide: list[Want] = []
        for want in wants:
            asked = ClaimRequest(
                wants=(*wide, replace(want, limit=LIMIT_MAX)), due_limit=0, hold_ms=0
            )
            places = [
                self.known.place_of(one) for one in (await self.reference.claim(asked)).ready[-1]
            ]
            wide.append(replace(want, limit=widened(want.limit, places)))
        return tuple(wide)

    async def _due_limit(self, limit: int) -> int:
        asked = ClaimRequest(due_limit=LIMIT_MAX, hold_ms=0)
        moments = [self.known.moment_of(one) for one in (await self.reference.claim(asked)).due]
        return widened(limit, moments)

    def _must_be_in_order(self, expected: Claimed, got: Claimed) -> None:
        for steps, same in zip(got.ready, expected.ready, strict=True):
            places = [self.known.place_of(one) for one in steps]
            if places != sorted(places):
                raise Differs(f"the ready steps are out of order: {brief(steps)}")
            waited = {step_of(one): one.waited_ms for one in same}
            for one in steps:
                if abs(one.waited_ms - waited[step_of(one)]) > HALF_MS:
                    raise Differs(f"it waited {waited[step_of(one)]} ms: {brief(one)}")
        moments = [self.known.moment_of(one) for one in got.due]
        if moments != sorted(moments):
            raise Differs(f"what is due is out of order: {brief(got.due)}")

    # --- time ---

    async def _pass(self, periods: int) -> None:
        ms = periods * PERIOD_MS
        self.log.append(f"{ms} ms pass")
        if self.subject.moves and self.known.now_ms + ms < PASSED_MS_MAX:
            await self.subject.advance(ms)
            self.runtime.advance(ms)
            self.known.now_ms += ms

    async def _reopen(self) -> None:
        self.log.append("the store is closed and opened again")
        if self._stop_hints is not None:
            self._stop_hints()
        before = await (await self.subject.connection(0)).describe()
        await self.subject.reopen()
        after = await (await self.subject.connection(0)).describe()
        must_equal(before.store_id, after.store_id)
        self._listen(await self.subject.connection(0))
        # A restart may forget holds: they are over when the store is asked again.
        await self._pass(1)

    def _listen(self, store: Store) -> None:
        def notify(tenant_id: str, run_id: str, version: int) -> None:
            self.hints.append((tenant_id, run_id, version))

        self._stop_hints = store.subscribe(notify)

    # --- reading ---

    async def _read(self, call: c.AnyCall) -> None:
        asked = asked_of(call, self.known)
        if asked is not None:
            self.log.append(asked[0])
            await self._both(call.connection, asked[1])

    async def _feed(self, call: c.FeedCall) -> None:
        self.log.append(f"feed {call.reader} by {call.limit}{' to its end' * call.to_the_end}")
        if call.to_the_end:
            await self._feed_to_the_end(call.connection, call.reader, call.limit)
            return
        mine, its = self.feeds[call.reader]
        await mine.read(self.reference, call.limit)
        await self._driver(call.connection, lambda store: its.read(store, call.limit))

    async def _feed_to_the_end(self, connection: int, reader: int, limit: int) -> None:
        mine, its = self.feeds[reader]
        keys = set(self.known.heads)
        while await mine.read(self.reference, limit):
            pass
        for _ in range(PATIENCE):
            while await self._driver(connection, lambda store: its.read(store, limit)) is True:
                pass
            if len(its.of(keys)) >= len(mine.of(keys)):
                break
            await SystemRuntime().sleep(0.01)
        must_equal(mine.of(keys), its.of(keys))

    async def _find(self, call: c.FindCall) -> None:
        """Compare at last: a result may be missed for a moment."""
        tenant_id, pipeline_id = self.known.tenants[call.tenant], pick(PIPELINES, call.pipeline)
        keys = [key for key in KEYS if self.known.has_one_last_run(tenant_id, pipeline_id, key)]
        self.log.append(f"find_keyed {tenant_id!r} {pipeline_id!r} {keys}")

        async def ask(store: Store) -> object:
            return list(await store.find_keyed(tenant_id, pipeline_id, keys))

        expected = await ask(self.reference)
        for _ in range(PATIENCE):
            if await self._driver(call.connection, ask) == expected:
                break
            await SystemRuntime().sleep(0.01)
        must_equal(expected, await self._driver(call.connection, ask))

    async def _read_on(self, call: c.ReadOnCall) -> None:
        key = self.known.key(call.tenant, call.run)
        if key not in self.known.heads:
            return
        self.log.append(f"the log of {key} from where it was read last (filter {call.only})")
        name = (key, call.only)
        if name not in self.read_on:
            self.read_on[name] = (reading.LogReader(*name), reading.LogReader(*name))
        mine, its = self.read_on[name]
        expected = await mine.read(self.reference, call.limit)
        must_equal(expected, await self._driver(call.connection, lambda s: its.read(s, call.limit)))

    # --- both ---

    async def _both(self, connection: int, ask: Ask) -> object:
        """Ask both, insist that they agree, and return the answer."""
        expected = await answered(ask(self.reference))
        must_equal(expected, await self._driver(connection, ask))
        return expected

    async def _driver(self, connection: int, ask: Ask) -> object:
        async with asyncio.timeout(ANSWER_S_MAX):
            return await answered(ask(await self.subject.connection(connection)))
