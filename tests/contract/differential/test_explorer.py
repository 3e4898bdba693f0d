"""The explorer catches a driver with a bug, makes its program small, and prints what replays it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from stepwell.core.port import Commit, CommitResult, Store
from stepwell_testkit.proxy import StoreProxy
from tests.contract.conformance.conftest import MemoryFactory
from tests.contract.differential import Explorer, Program, ProgramFailed, Subject, replay

PROGRAMS = 60


class MessagesTwice(StoreProxy):
    """Writes each commit's messages twice."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        twice = [replace(commit, messages=commit.messages * 2) for commit in commits]
        return await self.inner.commit(twice)


class BuggyFactory(MemoryFactory):
    """Opens stores of the memory driver with a bug."""

    def __init__(self, folder: Path, buggy: Callable[[Store], Store]) -> None:
        super().__init__(folder)
        self.buggy = buggy

    async def at(self, url: str) -> Store:
        store = self.buggy(await super().at(url))
        self.opened[id(store)] = (store, url)
        return store


@pytest.fixture
async def subject_of(
    tmp_path: Path,
) -> AsyncIterator[Callable[[Callable[[Store], Store]], Subject]]:
    made: list[Subject] = []

    def make(buggy: Callable[[Store], Store]) -> Subject:
        # A folder is a name, and stores of one name are one store.
        made.append(Subject(BuggyFactory(tmp_path / str(len(made)), buggy)))
        return made[-1]

    yield make
    for subject in made:
        await subject.drop()
        await subject.factory.close()


async def test_D1_bug_is_caught_and_its_replay_fails_again(
    subject_of: Callable[[Callable[[Store], Store]], Subject],
) -> None:
    with pytest.raises(ProgramFailed) as failed:
        await Explorer(subject_of(MessagesTwice), shrink_s=0.5).explore(
            1, programs=PROGRAMS, steps=50
        )

    text = str(failed.value).rpartition("--replay ")[2]
    with pytest.raises(ProgramFailed):
        await replay(subject_of(MessagesTwice), Program.of(text))
    await replay(subject_of(StoreProxy), Program.of(text))
