"""The history of a cluster, checked: what every replica did, and what the store has of it.

The diaries hold every commit as it was sent, by whom, and what the store said. They are laid over the
store's own log of each run, version by version, and go through the very rules that the simulator's
commits go through (`tests.simulation.simulator.rules`), then through its last look at the store.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import accumulate
from typing import NamedTuple

from stepwell.core.loop.loss_allowance import name_of
from stepwell.core.port import Commit, CommitResult, FeedQuery, RunQuery, Store
from stepwell.core.records.events import Event
from stepwell.core.records.states import EventType, ExecutionStatus, RunStatus, Verdict
from tests.chaos.oracle.journals import Journals, first_answers
from tests.chaos.world.observed import Entry, Look
from tests.simulation.simulator import audit, keys
from tests.simulation.simulator.history import History
from tests.simulation.simulator.ledger import Ledger
from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.violation import holds

TENANT = "default"
LOOKS_AT_ONCE = 8


class Sent(NamedTuple):
    """A commit as its replica sent it for the first time."""

    commit: Commit
    door: str
    at: float


class Log:
    """The diaries of all replicas, by commit."""

    def __init__(self, diary: Sequence[Entry]) -> None:
        self.sent: dict[str, Sent] = {}
        self.answers: dict[str, list[tuple[float, CommitResult]]] = defaultdict(list)
        """The answers to each commit, and their moments."""
        self.lost: set[str] = set()
        """Applied, and the answer was kept back."""
        self.unknown: set[str] = set()
        """Nobody knew, at least once."""
        self.looks: dict[str, list[tuple[float, Look]]] = defaultdict(list)
        """The results of loads and their moments, by run."""
        self._unanswered: Counter[str] = Counter()
        """The number of times that each was sent without an answer."""
        self.by_version: dict[tuple[str, int], list[Sent]] = defaultdict(list)
        for entry in diary:
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        if entry.sent is not None:
            commit = entry.sent
            if commit.commit_id not in self.sent:
                one = self.sent[commit.commit_id] = Sent(commit, entry.door, entry.at)
                self.by_version[commit.run_id, commit.version].append(one)
            self._unanswered[commit.commit_id] += 1
        elif entry.result is not None:
            # A verdict is of the commit, however often it was sent.
            self.answers[entry.commit_id].append((entry.at, entry.result))
            del self._unanswered[entry.commit_id]
        elif entry.certain:
            # Of this one time it is known that it did nothing; of those before it isn't.
            self._unanswered[entry.failed] -= 1
        elif entry.lost:
            self.lost.add(entry.lost)
            self.unknown.add(entry.lost)
        elif entry.failed:
            self.unknown.add(entry.failed)
        elif entry.look is not None:
            self.looks[entry.look.run_id].append((entry.at, entry.look))

    def is_open(self, commit_id: str) -> bool:
        """Tell whether a commit was sent and has no answer: it may be in the store or not."""
        return self._unanswered[commit_id] > 0

    def verdicts(self, one: Sent) -> set[Verdict]:
        """Return what a commit was answered."""
        return {result.verdict for _, result in self.answers[one.commit.commit_id]}


class Acknowledged(NamedTuple):
    """An outcome that was acknowledged to its worker."""

    run_id: str
    execution_id: str
    token: str
    data: bytes


class Lost(NamedTuple):
    """A lease that ran out, by the machine's monotonic clock."""

    step: tuple[str, str]
    """The run, and the step as its executions name it before their number."""
    worker_id: str
    instance: str
    """`worker_id instance_id`."""
    leased_at: float
    """When the commit that took it was sent."""
    lost_at: float


class Findings:
    """The result of a checked history."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        """Counts of the things that must have happened."""
        self.books: dict[str, RunModel] = {}
        self.lost: list[Lost] = []
        self.first_leased_at: dict[str, float] = {}
        """When the first lease of each worker instance was sent, by the machine's monotonic clock."""
        self.condemned: list[tuple[tuple[str, str], tuple[str, ...]]] = []
        """The steps that were found to be poison, each with the worker instances that were lost with it."""

    def doors(self, run_id: str, kind: EventType) -> Counter[str]:
        """Return how many events of a kind each replica committed to a run."""
        return Counter(
            applied.replica
            for applied in self.books[run_id].applied
            for event in applied.commit.events
            if event.type is kind
        )


async def check(
    store: Store,
    diary: Sequence[Entry],
    acknowledged: Sequence[Acknowledged] = (),
    *,
    shows_early: bool = False,
) -> Findings:
    """Check all that happened on this store so far. Nothing may be under way any more.

    `shows_early`: the store shows commits before they are acknowledged, and may lose those.

    Raises:
        InvariantViolation: something doesn't hold.
    """
    findings = Findings()
    log = Log(diary)
    ledger = _ledger()
    run_ids = await _runs(store)
    histories = [await _history(store, run_id, log) for run_id in run_ids]
    journals = Journals(diary)
    await journals.read(store, TENANT, run_ids)
    commits = (one.commit for history in histories for one in history)
    journals.count_in(ledger.journals, TENANT, commits)
    # Whoever leases under a key has seen before what its last holder sent to give it up (K1).
    for one in merge(*histories, key=lambda one: one.at):
        _replay(ledger, one, log)
    _refusals(ledger, log)
    _real_time(ledger, log)
    for book in ledger.models.values():
        findings.books[book.key[1]] = book
        _ended_well(book)
    await _audit(store, ledger)
    for book in ledger.models.values():
        _looks(book, log, shows_early=shows_early)
    await _feed(store, ledger, once=not shows_early)
    if not shows_early:
        journals.check(findings.books, first_answers(log.answers), findings.seen)
    findings.seen.update({name: ledger.history.seen[name] for name in keys.SEEN})
    _acknowledged(findings, acknowledged)
    _count(findings, diary, log)
    return findings


def check_condemned(findings: Findings, deaths: Mapping[str, Sequence[float]]) -> None:
    """Check that steps were found to be poison only for workers that held them and were killed then.

    `deaths`: when each worker was killed, by the machine's monotonic clock.

    Raises:
        InvariantViolation: one of those workers lived.
    """
    for step, instances in findings.condemned:
        lost_at = {one.instance: one.lost_at for one in findings.lost if one.step == step}
        for name in instances:
            # A server may give a step to a worker that was killed a moment ago.
            since, until = findings.first_leased_at.get(name, 0.0), lost_at.get(name, 0.0)
            died = any(since < at < until for at in deaths.get(name.split()[0], ()))
            holds(died, "S13", step, "is condemned for", instances, "and this one lived:", name)
    findings.seen["steps condemned"] += len(findings.condemned)


def _ledger() -> Ledger:
    def failed(violation: Exception) -> None:
        raise violation

    return Ledger(History(lambda: 0.0), lambda: 0, failed)


async def _runs(store: Store) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await store.page(RunQuery(tenant_id=TENANT, cursor=cursor, limit=500))
        found += [run.spec.run_id for run in page.items]
        cursor = page.cursor
        if not cursor:
            return found


def _replay(ledger: Ledger, one: Sent, log: Log) -> None:
    """Write a commit of the store's log, and all answers to it, into its run's book."""
    answers = [result for _, result in log.answers[one.commit.commit_id]]
    for result in answers or [CommitResult(verdict=Verdict.COMMITTED)]:
        ledger.committed(one.door, one.commit, result)


async def _history(store: Store, run_id: str, log: Log) -> list[Sent]:
    """Return for each version of a run in the store's log the one commit that made it, in their order."""
    by_version: dict[int, list[Event]] = defaultdict(list)
    events = await events_of(store, run_id)
    for event in events:
        by_version[event.version].append(event)
    holds(
        list(by_version) == list(range(1, len(by_version) + 1)), "S2", f"{run_id}: {[*by_version]}"
    )
    numbers = [event.number for event in events]
    holds(numbers == list(range(1, len(numbers) + 1)), "E1", f"{run_id}: {numbers}")
    return await _authors(store, run_id, by_version, log)


async def _authors(
    store: Store, run_id: str, by_version: Mapping[int, Sequence[Event]], log: Log
) -> list[Sent]:
    """Return the commit that made each version, in their order.

    The store names the last one, and each names the one that it `follows`.
    """
    loaded = await store.load(TENANT, run_id)
    assert loaded is not None
    commit_id = loaded.commit_id
    found: list[Sent] = []
    for version in sorted(by_version, reverse=True):
        one = _author(run_id, version, by_version[version], log, commit_id)
        found.append(one)
        commit_id = one.commit.follows
    return found[::-1]


def _author(run_id: str, version: int, stored: Sequence[Event], log: Log, commit_id: str) -> Sent:
    """Find the commit that made a version; it has this id, unless that is empty: not known."""
    name = f"{run_id} v{version}"
    candidates = log.by_version[run_id, version]
    won = [one for one in candidates if Verdict.COMMITTED in log.verdicts(one)]
    holds(len(won) <= 1, "S2", f"{name} was acknowledged to {[one.door for one in won]}")
    for one in won:
        verdicts = log.verdicts(one)
        holds(len(verdicts) == 1, "S4", f"{name} by {one.door} was answered {verdicts}")
        holds(list(one.commit.events) == list(stored), "S3", f"{name} isn't what was acknowledged")
        own = commit_id in ("", one.commit.commit_id)
        holds(own, "S3", f"{name} was acknowledged to {one.door}, and {commit_id} is followed")
        return one
    # Nobody got an answer: its replica was killed before the answer came. Then it is one of these.
    unanswered = [one for one in candidates if log.is_open(one.commit.commit_id)]
    fits = [
        one
        for one in unanswered
        if list(one.commit.events) == list(stored) and commit_id in ("", one.commit.commit_id)
    ]
    holds(fits, "S5", f"{name} is in the store, and nobody sent it or it was refused")
    # Two that died one after the other may have sent the same events, and not the same bytes.
    assert len(fits) == 1, f"{name}: its successor doesn't say which of {len(fits)} it follows"
    return fits[0]


def _refusals(ledger: Ledger, log: Log) -> None:
    """A commit refused for certain is nowhere (S5); an acknowledged one is somewhere (S3)."""
    for commit_id, answers in log.answers.items():
        for _, result in answers:
            one = log.sent[commit_id]
            if result.verdict is Verdict.COMMITTED:
                there = commit_id in ledger.commit_ids
                holds(there, "S3", f"{one.commit.run_id} v{one.commit.version} is gone")
            else:
                ledger.committed(one.door, one.commit, result)


def _real_time(ledger: Ledger, log: Log) -> None:
    """A commit that was sent after another was acknowledged has a later version (S2)."""
    for book in ledger.models.values():
        later = float("inf")
        # From the last to the first, with the earliest acknowledgement of any later version.
        for applied in reversed(book.applied):
            commit_id = applied.commit.commit_id
            name = f"{book.key[1]} v{applied.commit.version}"
            in_time = log.sent[commit_id].at <= later
            holds(in_time, "S2", f"{name} was sent after a later one was acknowledged")
            later = min([later, *(at for at, _ in log.answers[commit_id])])


def _looks(book: RunModel, log: Log, *, shows_early: bool) -> None:
    """A load shows one version (S1), all that was acknowledged before it (S3), and nothing else (E4)."""
    at = RunModel(*book.key)
    opens: list[dict[str, str]] = [{}]
    acknowledged: list[tuple[float, int]] = []
    for applied in book.applied:
        at.apply(applied)
        tokens = {name: lease.token for name, lease in at.leases.items()}
        opens.append({one.execution_id: tokens.get(one.execution_id, "") for one in at.open()})
        answers = log.answers[applied.commit.commit_id]
        acknowledged += [(when, applied.commit.version) for when, _ in answers[:1]]
    acknowledged.sort()
    newest = [0, *accumulate((version for _, version in acknowledged), max)]
    for when, look in log.looks[book.key[1]]:
        name = f"{book.key[1]} v{look.version} in a load"
        least = newest[bisect_left(acknowledged, (look.asked, 0))]
        holds(look.version >= least, "S3", name, "after an answer about", least)
        there = look.version <= book.version
        commit_id = book.applied[look.version - 1].commit.commit_id if there else ""
        if look.commit_id not in ("", commit_id):
            holds(shows_early, "E4", name, "was never committed")
            continue
        holds(there and log.sent[commit_id].at <= when, "E4", name, "was seen before it was sent")
        holds(look.open in (None, opens[look.version]), "S1", name, look.open, opens[look.version])


async def _audit(store: Store, ledger: Ledger) -> None:
    """Take the simulator's last look at every run: rows, events, what they fold to, results."""
    room = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def check_model(model: RunModel) -> None:
        async with room:
            for check in audit._CHECKS:
                await check(store, model)

    await asyncio.gather(*(check_model(model) for model in ledger.models.values()))


async def events_of(store: Store, run_id: str) -> list[Event]:
    """Return a run's whole log."""
    found: list[Event] = []
    while True:
        page = await store.read_events(TENANT, run_id, after=len(found), limit=500)
        assert page is not None
        found += page.events
        if not page.events or len(found) >= page.latest:
            return found


def _ended_well(book: RunModel) -> None:
    """All ends come, and nothing is left behind (L1, L2)."""
    assert book.run is not None
    holds(book.run.status is RunStatus.SUCCEEDED, "L1", f"{book.key[1]} is {book.run.status}")
    left = [execution.execution_id for execution in book.open()]
    holds(not left, "L2", f"{book.key[1]} has {left} open")


async def _feed(store: Store, ledger: Ledger, *, once: bool) -> None:
    """The feed names every commit, those of one run in order (S2); behind a fail-over some twice."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    cursor = ""
    while True:
        page = await store.page(FeedQuery(cursor=cursor, limit=1_000))
        for entry in page.items:
            found[entry.tenant_id, entry.run_id].append(entry.version)
        cursor = page.cursor
        if not page.items:
            break
    expected = {key: list(range(1, book.version + 1)) for key, book in ledger.models.items()}
    if not once:
        found = {key: [*dict.fromkeys(versions)] for key, versions in found.items()}
    holds(found == expected, "S2", "the feed doesn't name every commit once")


def _acknowledged(findings: Findings, acknowledged: Sequence[Acknowledged]) -> None:
    """Every outcome acknowledged to a worker is there, byte for byte (S3, S7, S8)."""
    for one in acknowledged:
        book = findings.books[one.run_id]
        name = f"{one.run_id}: {one.execution_id}"
        closing = book.closed.get(one.execution_id)
        done = closing is not None and closing.status is ExecutionStatus.COMPLETED
        holds(done, "S3", f"{name} was acknowledged and is {closing}")
        assert closing is not None
        holds(closing.fenced, "S8", f"{name} was accepted without its lease")
        holds(book.leases[one.execution_id].token == one.token, "S8", f"{name}: another's lease")
        result = book.outcomes[one.execution_id].result
        holds(result is not None and result.data == one.data, "S7", f"{name}: other bytes")
    findings.seen["acknowledged outcome checked"] += len(acknowledged)


def _count(findings: Findings, diary: Sequence[Entry], log: Log) -> None:
    seen = findings.seen
    authors = {
        (book.key[1], applied.commit.version): applied.replica
        for book in findings.books.values()
        for applied in book.applied
    }
    for one in log.sent.values():
        if Verdict.CONFLICT in log.verdicts(one):
            winner = authors.get((one.commit.run_id, one.commit.version))
            if winner not in (None, one.door):
                seen[f"conflict won by {winner}"] += 1
    scanners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in diary:
        for orphan in entry.due:
            scanners[orphan].add(entry.door)
        seen["notification lost"] += entry.deaf
    seen["two replicas scanned one orphan"] += sum(len(who) > 1 for who in scanners.values())
    applied = {one.commit.commit_id for book in findings.books.values() for one in book.applied}
    for commit_id in log.unknown:
        later = log.verdicts(log.sent[commit_id])
        known = commit_id not in log.lost or later <= {Verdict.COMMITTED}
        holds(known, "S4", f"{commit_id} was applied, then {later}")
        fate = "was applied" if commit_id in applied else "was not applied"
        seen[f"unknown commit that {fate}"] += 1
        seen["commit_id seen again"] += bool(later)
    seen["acknowledged commit checked"] += sum(
        Verdict.COMMITTED in log.verdicts(one) for one in log.sent.values()
    )
    seen["commit without an answer"] += sum(map(log.is_open, log.sent))
    winners = [name for name in seen if name.startswith("conflict won by ")]
    seen["conflict won by each of two replicas"] += len(winners) > 1
    for book in findings.books.values():
        findings.lost += _losses(book, log, findings.first_leased_at)
        findings.condemned += [
            (_step(book, execution_id), instances)
            for applied in book.applied
            for execution_id, instances in applied.condemned
        ]
        seen["run taken to its end"] += 1
        doors = {
            applied.replica
            for applied in book.applied
            if any(event.type is EventType.TASK_COMPLETED for event in applied.commit.events)
        }
        seen["run with outcomes accepted by several replicas"] += len(doors) > 1
        seen["lease lost"] += sum(event.type is EventType.LEASE_LOST for event in book.events)


def _losses(book: RunModel, log: Log, first_leased_at: dict[str, float]) -> list[Lost]:
    """Return the leases of a run that were found to have run out; note each instance's first one."""
    leased_at: dict[str, float] = {}
    found: list[Lost] = []
    for applied in book.applied:
        at = log.sent[applied.commit.commit_id].at
        for lease in applied.commit.leases:
            leased_at[lease.execution_id] = at
            instance = name_of(lease.worker_id, lease.instance_id)
            first_leased_at[instance] = min(at, first_leased_at.get(instance, at))
        for event in applied.commit.events:
            name = event.execution_id
            if event.type is EventType.LEASE_LOST and name in leased_at:
                worker_id = book.leases[name].worker_id
                instance = name_of(worker_id, book.leases[name].instance_id)
                step = _step(book, name)
                found.append(Lost(step, worker_id, instance, leased_at[name], at))
    return found


def _step(book: RunModel, execution_id: str) -> tuple[str, str]:
    return book.key[1], execution_id.rpartition("#")[0]
