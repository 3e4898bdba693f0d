"""Crashes and failing disks: the damage that they may do to the file, and how the store answers."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from stepwell.core.port import MessageQuery, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreFull, StoreRefused, StoreUnavailable
from stepwell.core.records.states import Verdict
from stepwell.store.opener import open_store
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.runtime import ManualRuntime

FIRST = b.created(executions=[b.ready()])
SECOND = b.step(FIRST, messages=[b.message("second")])
THIRD = b.step(SECOND, messages=[b.message("third")])


async def opened(path: Path) -> Store:
    return await open_store(f"journal://{path}", runtime=ManualRuntime("crashes"))


async def written(path: Path) -> list[int]:
    """Write three commits, and return where the file ended after each."""
    store = await opened(path)
    ends: list[int] = []
    for commit in (FIRST, SECOND, THIRD):
        assert (await store.commit([commit]))[0].verdict is Verdict.COMMITTED
        ends.append(len(path.read_bytes()))  # noqa: ASYNC240 - nobody else is on this loop
    await store.close()
    return ends


async def version_in(path: Path) -> int:
    """Open the journal, see what it has, and see that it goes on from there."""
    store = await opened(path)
    run = await store.get_run(b.TENANT, b.RUN)
    assert run is not None
    following = {1: SECOND, 2: THIRD}.get(run.version)
    if following is not None:
        assert (await store.commit([following]))[0].verdict is Verdict.COMMITTED
    await store.close()
    return run.version


async def test_a_frame_torn_at_any_byte_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    _, second, third = await written(path)
    whole = path.read_bytes()
    for size in range(second, third):
        path.write_bytes(whole[:size])
        assert await version_in(path) == 2, size
    # A file's length may reach the disk before what is in it.
    path.write_bytes(whole[:second] + bytes(third - second))
    assert await version_in(path) == 2
    path.write_bytes(whole)
    assert await version_in(path) == 3


async def test_damage_before_the_last_frame_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"
    first, *_ = await written(path)
    damaged = bytearray(path.read_bytes())
    damaged[first - 5] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(StoreRefused, match="damaged at byte"):
        await opened(path)
    assert path.read_bytes() == damaged


async def test_a_full_disk_refuses_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path / "x.journal")
    await store.commit([FIRST])

    real = os.pwrite

    def half(file: int, data: Any, at: int) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[: len(data) // 2], at)

    with monkeypatch.context() as patch:
        patch.setattr("stepwell_journal.journal.os.pwrite", half)
        with pytest.raises(StoreFull):
            await store.commit([SECOND])
    run = await store.get_run(b.TENANT, b.RUN)
    assert run == FIRST.run
    assert (await store.commit([SECOND]))[0].verdict is Verdict.COMMITTED
    await store.close()
    assert await version_in(tmp_path / "x.journal") == 2


async def test_after_a_failed_fsync_nothing_is_said_until_the_file_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path / "x.journal")
    await store.commit([FIRST])

    def fail(_file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("stepwell_journal.journal.os.fsync", fail)
        with pytest.raises(OutcomeUnknown):
            await store.commit([SECOND])
    for call in (store.commit([SECOND]), store.get_run(b.TENANT, b.RUN), store.renew([])):
        with pytest.raises(StoreUnavailable):
            await call
    await store.close()
    store = await opened(tmp_path / "x.journal")
    assert (await store.commit([SECOND]))[0].verdict is Verdict.COMMITTED
    messages = (await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items
    assert [message.content for message in messages] == ["second"]
    await store.close()


async def test_a_journal_is_held_by_one_store(tmp_path: Path) -> None:
    store = await opened(tmp_path / "x.journal")
    with pytest.raises(StoreRefused, match="in use"):
        await opened(tmp_path / "x.journal")
    await store.close()
    await (await opened(tmp_path / "x.journal")).close()
