"""The checker of histories, on short ones that are known: whom it believes, and whom it accuses."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from stepwell.core.port import Commit, CommitResult, Store
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.core.records.model import Payload
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.proxy import StoreProxy
from tests.chaos.load.lives import Hand
from tests.chaos.oracle.history import check
from tests.chaos.world import observed
from tests.chaos.world.observed import Entry, Scribe, read
from tests.simulation.simulator.violation import InvariantViolation


class Cut(StoreProxy):
    """A way to the store that is cut at the first outcome: the store has it by then, or never gets it."""

    def __init__(self, inner: Store, *, has_it: bool, other_bytes: bool = False) -> None:
        super().__init__(inner)
        self._has_it = has_it
        self._other_bytes = other_bytes

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        (commit,) = commits
        if not commit.outcomes:
            return await self.inner.commit(commits)
        if self._other_bytes:
            outcomes = (replace(one, result=Payload(data=b"!")) for one in commit.outcomes)
            commit = replace(commit, outcomes=tuple(outcomes))
        if self._has_it:
            await self.inner.commit([commit])
        raise OutcomeUnknown("cut")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await open_store("memory://", runtime=SystemRuntime())
    yield store
    await store.close()


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(observed.DIARY, str(tmp_path / "diary"))
    monkeypatch.setenv(observed.NAME, "r1")
    return tmp_path / "diary"


async def _played(store: Store, path: Path, *cuts: Cut) -> list[Entry]:
    """Play one run, by a hand that dies at each cut, and by one that ends it."""
    for number, cut in enumerate(cuts):
        with pytest.raises(OutcomeUnknown):
            await Hand(Scribe(cut), f"hand {number}", "seed").play("run")
    await Hand(Scribe(store), "the last hand", "seed").play("run")
    return read(path)


@pytest.mark.parametrize("lost", [1, 2])
async def test_S7_of_twins_whose_fate_nobody_was_told_the_one_that_the_store_has_counts(
    store: Store, diary: Path, lost: int
) -> None:
    """They have the same events and other bytes; all but the last sent never reached the store."""
    cuts = [Cut(store, has_it=False) for _ in range(lost)]
    entries = await _played(store, diary, *cuts, Cut(store, has_it=True))
    twins = [one.sent for one in entries if one.sent is not None and one.sent.outcomes][: lost + 1]
    assert all(twin.events == twins[0].events for twin in twins)
    assert len({twin.outcomes for twin in twins}) == lost + 1
    findings = await check(store, entries)
    assert findings.books["run"].applied[twins[0].version - 1].commit == twins[-1]
    assert findings.seen["commit that nobody was told of"] == lost + 1


async def test_S7_bytes_that_nobody_sent_are_accused(store: Store, diary: Path) -> None:
    cuts = (Cut(store, has_it=False), Cut(store, has_it=True, other_bytes=True))
    entries = await _played(store, diary, *cuts)
    with pytest.raises(InvariantViolation, match="S7"):
        await check(store, entries)


async def test_S3_a_run_that_goes_on_from_another_commit_than_the_acknowledged_is_accused(
    store: Store, diary: Path
) -> None:
    """The events are the same: only by its id is the one that was acknowledged gone."""
    entries = await _played(store, diary)
    born = next(one.sent for one in entries if one.sent is not None)
    gone = [
        replace(one, sent=replace(born, commit_id="gone"))
        if one.sent == born
        else replace(one, commit_id="gone" if one.commit_id == born.commit_id else one.commit_id)
        for one in entries
    ]
    with pytest.raises(InvariantViolation, match="S3"):
        await check(store, gone)


def _cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 20)


async def test_a_line_that_a_kill_cut_short_is_taken_back_before_the_next_life_writes(
    store: Store, diary: Path
) -> None:
    """A SIGKILL can end one write in the middle; what comes after it is a line of its own."""
    before = await _played(store, diary)
    _cut_short(diary)
    await Hand(Scribe(store), "after the kill", "seed").play("another run")
    entries = read(diary)
    assert entries[: len(before) - 1] == before[:-1]
    assert {one.sent.run_id for one in entries[len(before) - 1 :] if one.sent} == {"another run"}
