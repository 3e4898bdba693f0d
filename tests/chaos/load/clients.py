"""Clients of a store's three doors: many at once, on the same runs, each call written down.

Each does what a replica's executor does: looks at a run, makes its next commit, sends it, often with
others, sends it again through any door while nobody knows what became of it, and at times gives up. Some
of the runs are everybody's, so that there are conflicts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random
from time import monotonic
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from stepwell.core.port import (
    ClaimRequest,
    Commit,
    CommitResult,
    FeedQuery,
    Fence,
    Lease,
    Loaded,
    Store,
)
from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell.core.records.events import Event
from stepwell.core.records.model import Outcome, Payload, Run, RunSpec
from stepwell.core.records.states import EventType, ExecutionStatus, Verdict
from stepwell_testkit.conformance import builders as b
from tests.chaos.oracle.calls import (
    Beat,
    Claiming,
    History,
    Loading,
    Open,
    Paging,
    Seen,
    Sending,
    Span,
)
from tests.chaos.oracle.checker import moved
from tests.support.patience import PAUSE_S

T = TypeVar("T")
TENANT = b.TENANT
SHARED_RUNS = 32
OWN_RUNS = 8
CHAINED_RUNS = 4
HOLD_MS = 1_000
LEASE_MS = 600_000
"""Leases don't end by themselves here: all that ends one is a commit."""
GROUP_MAX = 12
CHAIN_MAX = 8
OPEN_MAX = 3
PAGE = 50
GIVES_UP = 0.15


class View(NamedTuple):
    """A run as a client knows it."""

    run: Run
    open: Open


def view_of(loaded: Loaded) -> View:
    """Return the view that a load gives."""
    rows = loaded.executions
    return View(loaded.run, {r.execution.execution_id: (r.execution.status, r.token) for r in rows})


def after(commit: Commit, view: View | None) -> View:
    """Return the run as a commit makes it."""
    now = dict(view.open) if view is not None else {}
    for status, token, execution_id in moved(commit):
        now.pop(execution_id, None)
        if status in (ExecutionStatus.READY, ExecutionStatus.LEASED):
            now[execution_id] = (status, token)
    return View(commit.run, now)


def following(run: Run | None, name: str, commit_id: str, many: int = 1) -> Commit:
    """Return a commit that comes next to a run, or makes it, with so many events that name it."""
    run = run or Run(spec=RunSpec(tenant_id=TENANT, run_id=name), created_us=1)
    version = run.version + 1
    events = tuple(
        Event(number=number, version=version, type=EventType.EXECUTION_LEASED, message=commit_id)
        for number in range(run.last_event + 1, run.last_event + many + 1)
    )
    return Commit(
        commit_id=commit_id,
        tenant_id=TENANT,
        run_id=name,
        version=version,
        run=replace(run, version=version, last_event=run.last_event + many),
        events=events,
    )


class Field:
    """The state that all clients of one history share."""

    def __init__(
        self,
        doors: Sequence[Store],
        seed: str,
        operations: int,
        enough: Callable[[], bool] = lambda: True,
    ) -> None:
        """`enough`: what must be so besides, before it is over."""
        self.doors = doors
        self._enough = enough
        self.history = History()
        self.chance = Random(seed)
        self.operations = operations
        self.known: dict[str, View] = {}
        """Runs as they were when somebody last knew."""
        self.runs = [f"shared-{number}" for number in range(SHARED_RUNS)]
        self._numbers = 0

    @property
    def over(self) -> bool:
        """Return true once enough was done."""
        return self.history.operations >= self.operations and self._enough()

    def fresh(self, what: str) -> str:
        """Return a name that never was."""
        self._numbers += 1
        return f"{what}-{self._numbers}-{self.chance.getrandbits(64):016x}"


class Client:
    """One of them."""

    def __init__(self, field: Field, name: str) -> None:
        self._field = field
        self._history = field.history
        self._chance = Random(f"{field.chance.random()} {name}")
        self._own = [f"own-{name}-{number}" for number in range(OWN_RUNS)]
        self._chained = [f"chained-{name}-{number}" for number in range(CHAINED_RUNS)]
        self._read: dict[str, int] = {}
        """Per run the last event that was read."""

    async def live(self) -> None:
        """Do one thing after another until enough was done."""
        doings: tuple[tuple[Callable[[], Awaitable[None]], int], ...] = (
            (self._group, 10),
            (self._chain, 5),
            (self._read_run, 3),
            (self._read_on, 3),
            (self._beat, 3),
            (self._claim, 2),
        )
        names, weights = zip(*doings, strict=True)
        while not self._field.over:
            (doing,) = self._chance.choices(names, weights)
            await doing()

    def _door(self) -> Store:
        return self._chance.choice(self._field.doors)

    async def _asked(
        self, kind: str, call: Callable[[Store], Awaitable[T]]
    ) -> tuple[T, Span] | None:
        """Call what may be called at any time; None: it failed."""
        self._history.counts[f"op {kind}"] += 1
        invoked = monotonic()
        try:
            answer = await call(self._door())
        except StoreUnavailable:
            self._history.counts["unavailable"] += 1
            await asyncio.sleep(PAUSE_S * self._chance.random())
            return None
        return answer, Span(invoked, monotonic())

    # --- writing ---

    async def _group(self) -> None:
        """The next commits of several runs, sent together."""
        many = self._chance.randint(1, GROUP_MAX)
        shared = self._chance.randint(0, min(many, 4))
        names = self._chance.sample(self._field.runs, shared)
        names += self._chance.sample(self._own, min(many - shared, OWN_RUNS))
        views = await asyncio.gather(*(self._view(name) for name in names))
        found = zip(names, views, strict=True)
        await self._send([self._next(name, v) for name, v in found if not isinstance(v, bool)])

    async def _chain(self) -> None:
        """Several commits of one run, sent together.

        Of runs that nobody else writes to, and never given up: else a later one of them could find its
        base made by another commit than the one that it was made for.
        """
        name = self._chance.choice(self._chained)
        view = await self._view(name)
        commits: list[Commit] = []
        for _ in range(self._chance.randint(2, CHAIN_MAX)):
            if isinstance(view, bool):
                return
            commits.append(self._next(name, view, honest=True))
            view = after(commits[-1], view)
        await self._send(commits, gives_up=0.0)

    async def _view(self, name: str) -> View | bool | None:
        """Return a run as it was known, or is; None: it doesn't exist; False: the store doesn't answer."""
        known = self._field.known.get(name)
        if known is not None and self._chance.random() < 0.9:
            return known
        return await self._load(name)

    async def _load(self, name: str) -> View | bool | None:
        asked = await self._asked("load", lambda store: store.load(TENANT, name))
        if asked is None:
            return False
        loaded, span = asked
        version = loaded.run.version if loaded is not None else 0
        self._history.seen.append(Seen(name, version, span, "load"))
        view = view_of(loaded) if loaded is not None else None
        self._history.loads.append(Loading(name, version, view.open if view else {}))
        if view is not None:
            self._knows(view)
        return view

    def _knows(self, view: View) -> None:
        known = self._field.known.get(view.run.spec.run_id)
        if known is None or known.run.version < view.run.version:
            self._field.known[view.run.spec.run_id] = view

    def _next(self, name: str, view: View | None, *, honest: bool = False) -> Commit:
        """Make the commit that follows what is known of a run."""
        commit = following(
            view.run if view else None, name, self._field.fresh("c"), self._chance.randint(1, 3)
        )
        return self._with_rows(commit, view.open if view else {}, honest=honest)

    def _with_rows(self, commit: Commit, now: Open, *, honest: bool) -> Commit:
        """Offer, lease or complete something; where not honest, at times with a token of nobody's."""
        chance = self._chance
        ready = [one for one, (status, _) in now.items() if status is ExecutionStatus.READY]
        leased = [one for one, (status, _) in now.items() if status is ExecutionStatus.LEASED]
        draw = chance.random()
        if leased and draw < 0.45:
            one = chance.choice(leased)
            stale = not honest and chance.random() < 0.15
            token = self._field.fresh("stale") if stale else now[one][1]
            return replace(
                commit,
                executions=(b.ended(one),),
                outcomes=(Outcome(execution_id=one, result=Payload(data=token.encode())),),
                fences=(Fence(execution_id=one, token=token),),
            )
        if ready and draw < 0.85:
            one = chance.choice(ready)
            lease = Lease(
                execution_id=one,
                token=self._field.fresh("t"),
                worker_id="worker-1",
                lease_ms=LEASE_MS,
            )
            return replace(commit, executions=(b.leased(one),), leases=(lease,))
        if len(now) < OPEN_MAX:
            return replace(commit, executions=(b.ready(f"e{commit.version}"),))
        return commit

    async def _send(self, commits: Sequence[Commit], *, gives_up: float = GIVES_UP) -> None:
        """Send them until the store has answered, or until it's enough."""
        for sends in count() if commits else ():
            results = await self._once(commits)
            if results is not None:
                self._take(commits, results)
                return
            for commit in commits:
                self._field.known.pop(commit.run_id, None)
            if self._chance.random() < gives_up:
                self._history.counts["given up"] += 1
                return
            await asyncio.sleep(PAUSE_S * self._chance.random() * min(sends + 1, 10))

    async def _once(self, commits: Sequence[Commit]) -> Sequence[CommitResult] | None:
        history, invoked = self._history, monotonic()
        history.counts["op commit"] += len(commits)
        results: Sequence[CommitResult] | None = None
        certain = True
        try:
            results = await self._door().commit(commits)
        except StoreUnavailable:
            history.counts["commit unavailable"] += 1
        except OutcomeUnknown:
            certain = False
            history.counts["commit unknown"] += 1
        except asyncio.CancelledError:
            certain = False
            raise
        finally:
            span = Span(invoked, monotonic())
            verdicts = [one.verdict for one in results] if results else [None] * len(commits)
            for commit, verdict in zip(commits, verdicts, strict=True):
                history.sent(commit, Sending(span, verdict, certain))
        return results

    def _take(self, commits: Sequence[Commit], results: Sequence[CommitResult]) -> None:
        views: dict[str, View | None] = {}
        for commit, result in zip(commits, results, strict=True):
            self._history.counts[f"told {result.verdict}"] += 1
            known = views.get(commit.run_id) or self._field.known.get(commit.run_id)
            if result.verdict is not Verdict.COMMITTED:
                self._field.known.pop(commit.run_id, None)
            elif known is not None and known.run.version == commit.version - 1:
                view = views[commit.run_id] = after(commit, known)
                self._knows(view)

    # --- reading, and calls other than commits ---

    async def _read_run(self) -> None:
        name = self._chance.choice(self._field.runs)
        if self._chance.random() < 0.5:
            await self._load(name)
            return
        asked = await self._asked("get_run", lambda store: store.get_run(TENANT, name))
        if asked is not None:
            run, span = asked
            self._history.seen.append(Seen(name, run.version if run else 0, span, "get_run"))

    async def _read_on(self) -> None:
        """Read a run's events on from where this client is; each page through any door."""
        name = self._chance.choice(self._field.runs)
        at = self._read.get(name, 0)
        asked = await self._asked(
            "read_events", lambda store: store.read_events(TENANT, name, after=at, limit=PAGE)
        )
        if asked is None or asked[0] is None:
            return
        page, span = asked
        assert page is not None
        if page.events:
            self._read[name] = page.events[-1].number
            self._history.pages.append(Paging(name, at, page.events))
            if page.latest == page.events[-1].number:
                seen = Seen(name, page.events[-1].version, span, "events")
                self._history.seen.append(seen)

    async def _beat(self) -> None:
        """Heartbeats for leases of what is known of runs, which may be over."""
        names = self._chance.sample(self._field.runs, 4)
        beats = [
            b.renewal(name, execution_id=one, token=token, lease_ms=LEASE_MS)
            for name in names
            if (view := self._field.known.get(name)) is not None
            for one, (status, token) in view.open.items()
            if status is ExecutionStatus.LEASED
        ]
        if not beats:
            return
        asked = await self._asked("renew", lambda store: store.renew(beats))
        if asked is not None:
            for beat, alive in zip(beats, asked[0], strict=True):
                found = Beat(beat.run_id, beat.execution_id, beat.token, asked[1], alive)
                self._history.beats.append(found)

    async def _claim(self) -> None:
        request = ClaimRequest(wants=(b.want(limit=4),), hold_ms=HOLD_MS)
        asked = await self._asked("claim", lambda store: store.claim(request))
        if asked is not None:
            for step in asked[0].ready[0]:
                claimed = Claiming(step.run_id, step.execution_id, asked[1])
                self._history.claims.append(claimed)


class FeedReader:
    """Reads the feed from its beginning; each page through any door."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._cursor = ""
        self._received: list[tuple[str, int]] = []
        field.history.fed.append(self._received)

    async def page(self, door: Store | None = None) -> int:
        """Read a page; returns how many commits it named."""
        history = self._field.history
        history.counts["op feed"] += 1
        try:
            chosen = door or self._field.chance.choice(self._field.doors)
            page = await chosen.page(FeedQuery(cursor=self._cursor, limit=200))
        except StoreUnavailable:
            return 0
        self._cursor = page.cursor
        self._received += [(one.run_id, one.version) for one in page.items]
        return len(page.items)

    async def live(self) -> None:
        """Read until enough was done."""
        while not self._field.over:
            if not await self.page():
                await asyncio.sleep(PAUSE_S)

    @property
    def received(self) -> int:
        """Return the number of commits that it was sent."""
        return len(self._received)
