"""The checker: lays what clients saw over what the store has, in time linear in both (but for sorting).

Versions are recorded, so nothing is searched: each version of a run names the one commit that made it,
and every answer that anyone got must fit to the chain of these.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stepwell.core.port import Commit
from stepwell.core.records.states import ExecutionStatus, Verdict
from tests.chaos.oracle.calls import (
    Beat,
    Claiming,
    History,
    Kept,
    Loading,
    Open,
    Seen,
    Span,
    Tried,
)
from tests.simulation.simulator.violation import holds

NEVER = float("inf")


class Term(NamedTuple):
    """A time in an execution's life, by the commits that began and ended it."""

    begun: Tried
    ended: Tried | None

    def surely(self, at: float, until: float) -> bool:
        """Return true if it lasted all that time, for everyone."""
        return self.begun.acknowledged < at and (self.ended is None or until < self.ended.invoked)

    def possibly(self, at: float, until: float) -> bool:
        """Return true if it may have lasted at any moment of that time."""
        over = self.ended is not None and self.ended.acknowledged < at
        return self.begun.invoked < until and not over


class Chain:
    """One run: the commit of each version, and what was so between them."""

    def __init__(self, run_id: str, kept: Kept, history: History) -> None:
        self.run_id = run_id
        self.kept = kept
        self.commits: list[Tried] = []
        self.opens: list[Open] = [{}]
        """By version: what was open."""
        self.ready: dict[str, Term] = {}
        self.leases: dict[str, Term] = {}
        """By token."""
        self._read(history)
        self._replay()

    def _read(self, history: History) -> None:
        """Find each version's commit."""
        by_version = defaultdict[int, list[str]](list)
        for number, event in enumerate(self.kept.events, 1):
            holds(event.number == number, "E1", f"{self.run_id}: {event.number} for {number}")
            by_version[event.version].append(event.message)
        versions = list(by_version)
        expected = list(range(1, self.kept.version + 1))
        holds(versions == expected, "S2", f"{self.run_id} is at {self.kept.version}: {versions}")
        for version, authors in by_version.items():
            name = f"{self.run_id} v{version} by {authors[0]}"
            tried = history.tried.get(authors[0])
            holds(tried is not None, "S5", f"{name}: nobody sent it")
            assert tried is not None
            commit = tried.commit
            ours = (commit.run_id, commit.version) == (self.run_id, version)
            holds(ours, "S4", f"{name} was sent as {commit.run_id} v{commit.version}")
            holds(tried.possible, "S5", f"{name} was refused for certain: {tried.sendings}")
            same = self.kept.events[commit.events[0].number - 1 :][: len(commit.events)]
            holds(same == commit.events, "S1", f"{name}: {same} instead of {commit.events}")
            holds(len(authors) == len(commit.events), "S1", f"{name}: {authors}")
            self.commits.append(tried)

    def _replay(self) -> None:
        """Go over the commits, with each fence looked at where it stood."""
        now: dict[str, tuple[ExecutionStatus, str]] = {}
        for tried in self.commits:
            commit = tried.commit
            for fence in commit.fences:
                mine = now.get(fence.execution_id, (None, ""))[1]
                name = f"{self.run_id} v{commit.version}"
                holds(mine == fence.token, "S8", f"{name} was let in with a stale token")
            for status, token, execution_id in moved(commit):
                self._end_terms(now.get(execution_id), execution_id, tried)
                if status is ExecutionStatus.READY:
                    self.ready[execution_id] = Term(tried, None)
                elif status is ExecutionStatus.LEASED:
                    holds(token not in self.leases, "S9", f"{self.run_id}: {execution_id} again")
                    self.leases[token] = Term(tried, None)
                if status in (ExecutionStatus.READY, ExecutionStatus.LEASED):
                    now[execution_id] = (status, token)
                else:
                    now.pop(execution_id, None)
            self.opens.append(dict(now))
        holds(self.kept.open == now, "S20", f"{self.run_id}: {self.kept.open} instead of {now}")

    def _end_terms(
        self, before: tuple[ExecutionStatus, str] | None, execution_id: str, tried: Tried
    ) -> None:
        if before is None:
            return
        status, token = before
        if status is ExecutionStatus.READY:
            self.ready[execution_id] = self.ready[execution_id]._replace(ended=tried)
        else:
            self.leases[token] = self.leases[token]._replace(ended=tried)

    def at(self, version: int) -> Tried | None:
        """Return the commit of a version, if it is there."""
        return self.commits[version - 1] if 0 < version <= len(self.commits) else None


def moved(commit: Commit) -> Iterable[tuple[ExecutionStatus, str, str]]:
    """Return what a commit makes of each execution that it names: status, token, id."""
    tokens = {lease.execution_id: lease.token for lease in commit.leases}
    for one in commit.executions:
        yield one.status, tokens.get(one.execution_id, ""), one.execution_id


def check(history: History, kept: Mapping[str, Kept], *, hold_ms: int) -> Counter[str]:
    """Check all that was seen against what is kept, and return how often rare things happened.

    Raises:
        InvariantViolation: something doesn't hold.
    """
    chains = {run_id: Chain(run_id, one, history) for run_id, one in kept.items()}
    found = Counter[str]()
    for tried in history.tried.values():
        _answers(chains[tried.commit.run_id], tried, found)
    for chain in chains.values():
        _real_time(chain)
        _results(chain)
    _reads(chains, history.seen)
    _loads(chains, history.loads)
    _pages(chains, history)
    _feeds(chains, history)
    for beat in history.beats:
        _beat(chains[beat.run_id], beat)
    _claims(chains, history.claims, hold_ms / 1_000)
    return found


def _answers(chain: Chain, tried: Tried, found: Counter[str]) -> None:
    """Each answer that a commit was given, against whether it is there (S3, S4, S5, S8)."""
    commit = tried.commit
    name = f"{chain.run_id} v{commit.version} {commit.commit_id}: {tried.sendings}"
    winner = chain.at(commit.version)
    there = winner is tried
    unknown = False
    for sending in tried.sendings:
        if sending.verdict is Verdict.COMMITTED:
            holds(there, "S3", f"{name} was acknowledged and is gone")
        elif sending.verdict is not None:
            # A commit that is there answers COMMITTED for ever; one that was refused never comes.
            holds(not there, "S4" if unknown else "S5", f"{name} was refused and is there")
        if sending.verdict is Verdict.CONFLICT:
            _was_late(chain, tried, sending.span.invoked, sending.span.answered)
        elif sending.verdict is Verdict.LEASE_LOST:
            _was_stale(chain, tried)
        found["commit_id seen again"] += unknown and sending.verdict is not None
        unknown |= sending.verdict is None and not sending.certain
    if unknown:
        what = "unknown commit that was applied" if there else "unknown commit that was not applied"
        found[what] += 1


def _was_late(chain: Chain, tried: Tried, invoked: float, answered: float) -> None:
    """A CONFLICT needs another version than its base at some moment while it was asked."""
    base = tried.commit.version - 1
    before, after = chain.at(base), chain.at(base + 1)
    was_there = base == 0 or (before is not None and before.acknowledged < invoked)
    stayed = after is None or after.invoked > answered
    holds(not (was_there and stayed), "S2", f"{tried.commit.commit_id}: a conflict with nobody")


def _was_stale(chain: Chain, tried: Tried) -> None:
    """A LEASE_LOST needs the base to be there and a fence that didn't hold at it."""
    base = tried.commit.version - 1
    holds(base < len(chain.opens), "S8", f"{tried.commit.commit_id}: LEASE_LOST at no version")
    then = chain.opens[base]
    held = all(
        then.get(one.execution_id, (None, ""))[1] == one.token for one in tried.commit.fences
    )
    holds(not held, "S8", f"{tried.commit.commit_id}: LEASE_LOST, and its lease was there")


def _real_time(chain: Chain) -> None:
    """A commit sent after another was acknowledged has a later version (S2)."""
    later = NEVER
    for tried in reversed(chain.commits):
        name = f"{chain.run_id} v{tried.commit.version}"
        holds(tried.invoked < later, "S2", f"{name} was sent after a later one was acknowledged")
        later = min(later, tried.acknowledged)


def _results(chain: Chain) -> None:
    """Every outcome of a commit that is there is kept, byte for byte (S3, S7)."""
    for tried in chain.commits:
        for outcome in tried.commit.outcomes:
            assert outcome.result is not None
            data = chain.kept.results.get(outcome.execution_id)
            name = f"{chain.run_id} {outcome.execution_id}"
            holds(data == outcome.result.data, "S7", f"{name}: {data} for {outcome.result.data}")


def _reads(chains: Mapping[str, Chain], seen: Iterable[Seen]) -> None:
    """A read sees all that was acknowledged, or read by anyone, before it was made (S3, E4)."""
    moments = defaultdict[str, list[tuple[float, int, Seen | None]]](list)
    for run_id, chain in chains.items():
        for tried in chain.commits:
            if tried.acknowledged < NEVER:
                moments[run_id].append((tried.acknowledged, tried.commit.version, None))
    for one in seen:
        moments[one.run_id].append((one.span.answered, one.version, None))
        moments[one.run_id].append((one.span.invoked, 0, one))
        author = chains[one.run_id].at(one.version)
        name = f"{one.run_id} v{one.version} by {one.how}"
        holds(author is not None or one.version == 0, "E4", f"{name} was never committed")
        before = author is None or author.invoked < one.span.answered
        holds(before, "E4", f"{name} was read before it was sent")
    for run_id, known in moments.items():
        least = 0
        for _, version, read in sorted(known, key=lambda moment: moment[0]):
            if read is None:
                least = max(least, version)
            else:
                name = f"{run_id}: {read.how} returned v{read.version} after v{least} was known"
                holds(read.version >= least, "E4" if read.how == "events" else "S3", name)


def _loads(chains: Mapping[str, Chain], loads: Iterable[Loading]) -> None:
    """All that a load returns is of one version (S1)."""
    for one in loads:
        expected = chains[one.run_id].opens[one.version]
        holds(one.open == expected, "S1", f"{one.run_id} v{one.version}: {one.open} for {expected}")


def _pages(chains: Mapping[str, Chain], history: History) -> None:
    """A page goes on where it was asked to, is what the store has, and splits no commit (E1 E2 E8)."""
    for one in history.pages:
        events = chains[one.run_id].kept.events
        expected = events[one.after : one.after + len(one.events)]
        name = f"{one.run_id} after {one.after}"
        holds(one.events == expected, "E2", f"{name}: {one.events} instead of {expected}")
        end = one.after + len(one.events)
        if one.events and end < len(events):
            split = events[end].version == one.events[-1].version
            holds(not split, "E8", f"{name}: v{one.events[-1].version} is split")


def _feeds(chains: Mapping[str, Chain], history: History) -> None:
    """Each reader of the feed gets each commit once, a run's in their order (E1, S2)."""
    expected = {run_id: list(range(1, chain.kept.version + 1)) for run_id, chain in chains.items()}
    for reader, received in enumerate(history.fed):
        by_run = defaultdict[str, list[int]](list)
        for run_id, version in received:
            by_run[run_id].append(version)
        for run_id, versions in expected.items():
            name = f"reader {reader}: {run_id}"
            holds(by_run[run_id] == versions, "E1", f"{name}: {by_run[run_id]} for {versions}")


def _beat(chain: Chain, beat: Beat) -> None:
    """A heartbeat is alive while its lease is there, and not after it (S8)."""
    term = chain.leases.get(beat.token)
    name = f"{chain.run_id} {beat.execution_id}: {beat}"
    if beat.alive:
        there = term is not None and term.possibly(*beat.span)
        holds(there, "S8", f"{name} was renewed without a lease")
    else:
        lost = term is None or not term.surely(*beat.span)
        holds(lost, "S8", f"{name} was answered as lost, and was there")


def _claims(chains: Mapping[str, Chain], claims: Iterable[Claiming], hold_s: float) -> None:
    """A claimed step is READY, and nobody else gets it while it is held (S10)."""
    known = defaultdict[tuple[str, str], list[Span]](list)
    for one in claims:
        term = chains[one.run_id].ready.get(one.execution_id)
        name = f"{one.run_id} {one.execution_id}"
        there = term is not None and term.possibly(*one.span)
        holds(there, "S10", f"{name} was claimed, and isn't READY")
        others = known[one.run_id, one.execution_id]
        for other in others:
            # Either may have been first: who asked first and waited long was served last.
            apart = max(one.span.answered - other.invoked, other.answered - one.span.invoked)
            holds(apart >= hold_s, "S10", f"{name} was given at {other} and at {one.span}")
        others.append(one.span)
