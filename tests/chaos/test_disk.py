"""The disk that forgets: what was synced stays, what wasn't goes, and faults come where they are asked for."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.disk.disk import Disk
from tests.chaos.disk.stored import PAGE, Contents, Survival

SECTOR = 512


def sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def written(path: Path, data: bytes, *, synced: bool) -> None:
    path.write_bytes(data)
    if synced:
        sync(path)


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def cut(disk: Disk) -> None:
    disk.on(Survival())


def test_synced_bytes_stay_and_others_go(disk: Disk) -> None:
    written(disk.folder / "a", b"kept", synced=True)
    written(disk.folder / "b", b"forgotten", synced=False)
    sync(disk.folder)
    with (disk.folder / "a").open("r+b") as file:
        file.write(b"lost")
    assert (disk.folder / "a").read_bytes() == b"lost"
    cut(disk)
    assert (disk.folder / "a").read_bytes() == b"kept"
    assert (disk.folder / "b").read_bytes() == b""


def test_name_stays_only_once_its_folder_is_synced(disk: Disk) -> None:
    (disk.folder / "inside").mkdir()
    sync(disk.folder)
    written(disk.folder / "inside" / "named", b"x", synced=True)
    sync(disk.folder / "inside")
    written(disk.folder / "inside" / "nameless", b"x", synced=True)
    (disk.folder / "inside" / "named").unlink()
    cut(disk)
    assert listed(disk.folder / "inside") == ["named"]


def test_rename_survives_with_its_folder_or_not_at_all(disk: Disk) -> None:
    written(disk.folder / "a", b"new", synced=True)
    written(disk.folder / "b", b"old", synced=True)
    sync(disk.folder)
    (disk.folder / "a").rename(disk.folder / "b")
    assert listed(disk.folder) == ["b"]
    cut(disk)
    assert listed(disk.folder) == ["a", "b"]
    assert (disk.folder / "b").read_bytes() == b"old"
    (disk.folder / "a").rename(disk.folder / "b")
    sync(disk.folder)
    cut(disk)
    assert listed(disk.folder) == ["b"]
    assert (disk.folder / "b").read_bytes() == b"new"


@pytest.mark.parametrize("how", ["fsync", "fdatasync", "O_DSYNC", "O_SYNC", "msync"])
def test_every_way_to_sync_keeps_the_bytes(disk: Disk, how: str) -> None:
    path = disk.folder / "a"
    written(path, bytes(2 * PAGE), synced=True)
    sync(disk.folder)
    file = os.open(path, os.O_RDWR | (getattr(os, how) if how.startswith("O_") else 0))
    if how == "msync":
        with mmap.mmap(file, 2 * PAGE) as shared:
            shared[:4] = b"kept"
            shared.flush()
    else:
        os.pwrite(file, b"kept", 0)
    if how.startswith("f"):
        getattr(os, how)(file)
    os.close(file)
    cut(disk)
    assert path.read_bytes() == b"kept".ljust(2 * PAGE, b"\0")


def test_power_goes_off_at_the_nth_change(disk: Disk) -> None:
    (disk.folder / "a").touch()
    sync(disk.folder)
    program = (
        "import os, sys\n"
        f"file = os.open({str(disk.folder / 'a')!r}, os.O_WRONLY)\n"
        "while True:\n"
        "    os.write(file, b'x'); os.fsync(file); os.write(1, b'.')\n"
    )
    disk.cut_at(20)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as writer:
        assert disk.is_off(30)
        assert disk.counted() == (20, [])
        disk.cut(writer.kill)
        assert writer.stdout is not None
        seen = len(writer.stdout.read())
    assert seen == 9
    assert (disk.folder / "a").stat().st_size == seen


@pytest.mark.parametrize("forever", [False, True])
def test_the_nth_change_is_refused_once_or_from_then_on(disk: Disk, forever: bool) -> None:
    disk.fail(2, errno.ENOSPC, ops=["WRITE"], forever=forever)
    seen: list[int] = []
    for name in "abcd":
        try:
            (disk.folder / name).write_bytes(b"x")
        except OSError as error:
            seen.append(error.errno or 0)
    assert seen == [errno.ENOSPC] * (3 if forever else 1)
    assert disk.counted().refused == ["WRITE"] * len(seen)
    disk.heal()
    (disk.folder / "e").write_bytes(b"x")


def test_write_of_a_failed_sync_is_seen_and_never_kept(disk: Disk) -> None:
    written(disk.folder / "a", b"kept", synced=True)
    sync(disk.folder)
    disk.fail(1, ops=["FSYNC"])
    with (disk.folder / "a").open("r+b") as file:
        file.write(b"gone")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        sync(disk.folder / "a")
    sync(disk.folder / "a")  # it says that all is well
    assert (disk.folder / "a").read_bytes() == b"gone"
    cut(disk)
    assert (disk.folder / "a").read_bytes() == b"kept"


# --- what survives unasked -------------------------------------------------------------------------


def after(
    contents: Contents, block: int, share: float = 0.0, *, in_order: bool = False
) -> set[bytes]:
    cuts = (Survival(share, block, f"seed {at}", in_order) for at in range(200))
    return {bytes(contents.after_cut(one)) for one in cuts}


def test_any_blocks_survive_torn_and_in_any_order() -> None:
    contents = Contents(bytes(4 * SECTOR))
    for mark in (b"1", b"2"):
        contents.write(100, mark * (3 * SECTOR - 100))
    found = after(contents, SECTOR)
    seen = {
        tuple(image[at * SECTOR + 200 : at * SECTOR + 201] for at in range(4)) for image in found
    }
    states = (b"\0", b"1", b"2")
    # Each of three blocks is as it was, as the first write left it, or as the second did.
    assert seen == {(a, b, c, b"\0") for a in states for b in states for c in states}
    assert all(image[:100] == bytes(100) for image in found)
    # In one block of the larger size they stand or fall together.
    assert len(after(contents, PAGE)) == 3


def test_writes_in_order_lose_only_the_end() -> None:
    contents = Contents(b"old")
    contents.write(3, b"1" * SECTOR)
    contents.write(3 + SECTOR, b"2" * SECTOR)
    contents.resize(100)
    contents.write(100, b"3" * 10)
    both = b"old" + b"1" * SECTOR + b"2" * SECTOR
    ends = [3, SECTOR, 3 + SECTOR, 2 * SECTOR, len(both)]
    steps = {both[:end] for end in ends} | {both[:100], both[:100] + b"3" * 10}
    assert after(contents, SECTOR, in_order=True) == steps
    assert after(contents, SECTOR, share=1.0, in_order=True) == {both[:100] + b"3" * 10}
    contents.sync()
    assert after(contents, SECTOR, in_order=True) == {both[:100] + b"3" * 10}
