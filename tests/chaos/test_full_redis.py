"""A full disk under Redis: what the store says, that nothing is half-written, and that work goes on."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.core.port import Commit, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.support.backends.child import until
from tests.support.backends.redis import Redis
from tests.support.backends.small_disk import small_disk
from tests.support.proofs.record import happened

ROOM_MIB = 8
COMMIT_BYTES = 256 * 1024


@pytest.fixture
def place() -> Iterator[Path]:
    # A socket's path has hardly a hundred bytes, so it is not below pytest's folder.
    with (
        tempfile.TemporaryDirectory(prefix="full-") as short,
        small_disk(Path(short), ROOM_MIB) as folder,
    ):
        yield folder


def large(number: int) -> Commit:
    return b.born(f"run-{number}", input=Payload(data=os.urandom(COMMIT_BYTES)))


async def fill(store: Store) -> tuple[int, Exception]:
    """Commit until it fails; return how many were acknowledged, and the error."""
    for number in range(4 * ROOM_MIB):
        try:
            await ask.must(store, large(number))
        except (StoreUnavailable, OutcomeUnknown) as error:
            return number, error
    raise AssertionError("it never was full")


@pytest.mark.proof(meets=["disk full"])
async def test_D4_a_full_disk_is_told_and_work_goes_on_by_itself(place: Path) -> None:
    """With `everysec` Redis stays up, and refuses what it can't write."""
    ballast = place / "ballast"
    ballast.write_bytes(bytes(ROOM_MIB * 1024 * 1024 // 2))
    with Redis(appendfsync="everysec", inside=place) as server:
        store = await open_store(server.url(), runtime=SystemRuntime())
        told, error = await fill(store)
        assert isinstance(error, StoreFull), error
        assert await ask.version_of(store, f"run-{told}") == 0, "S5"
        ballast.unlink()
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await ask.verdicts(store, b.born("after")) == [Verdict.COMMITTED]
                    break
                except StoreFull:
                    # It looks whether there is room once a second.
                    await asyncio.sleep(0.1)
        assert [await ask.version_of(store, f"run-{at}") for at in range(told)] == [1] * told, "S3"
        await store.close()
    happened("disk full")


@pytest.mark.proof
async def test_D3_with_always_a_full_disk_ends_the_server_and_loses_nothing(place: Path) -> None:
    """It can't take back what it did in memory, so it goes; whoever starts it needs room for it."""
    ballast = place / "ballast"
    ballast.write_bytes(bytes(ROOM_MIB * 1024 * 1024 // 2))
    with Redis(appendfsync="always", inside=place) as server:
        store = await open_store(server.url(), runtime=SystemRuntime())
        told, _ = await fill(store)
        assert await asyncio.to_thread(until, lambda: not server.running, 30)
        ballast.unlink()
        await asyncio.to_thread(server.start)
        # Of the last one nobody was told; now it is done, once.
        assert await ask.verdicts(store, large(told)) == [Verdict.COMMITTED]
        assert [await ask.version_of(store, f"run-{at}") for at in range(told)] == [1] * told, "S3"
        await store.close()
    happened("disk full")
