"""Power cuts: nothing acknowledged is lost with the defaults, and it shows where that isn't promised."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from stepwell.core.records.states import Durability
from tests.chaos.disk.disk import Disk
from tests.chaos.disk.powered import Powered, postgres, redis, sqlite
from tests.chaos.disk.series import Part, Series, Setting, play
from tests.chaos.load.lives import Life, Task
from tests.support.backends.child import NotStarted
from tests.support.proofs.sizes import chunks

POWER, VOLATILE = Durability.POWER, Durability.VOLATILE

POSTGRES = "power cuts, postgres"
"""A start of Postgres costs more than all that is written before the next cut."""
CUTS_EACH = 13
SETTINGS = (
    Setting("sqlite", sqlite, POWER),
    Setting("sqlite with synchronous=NORMAL", sqlite, POWER, plant="NORMAL"),
    Setting("redis", redis, POWER, syncs_what_it_shows=False, sees_holes=False),
    Setting(
        "redis with appendfsync everysec",
        partial(redis, appendfsync="everysec"),
        VOLATILE,
        syncs_what_it_shows=False,
        sees_holes=False,
    ),
    Setting("postgres", postgres, POWER, size=POSTGRES),
    Setting(
        "postgres with synchronous_commit=off",
        partial(postgres, synchronous_commit="off"),
        VOLATILE,
        size=POSTGRES,
    ),
)
PARTS = [Part(setting, cuts) for setting in SETTINGS for cuts in chunks(setting.size, CUTS_EACH)]


@pytest.mark.proof
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_S3_a_power_cut_loses_nothing_acknowledged_where_that_is_promised(
    disk: Disk, tmp_path: Path, part: Part
) -> None:
    series = play(part, disk, tmp_path)
    assert series.acknowledged > 0
    # Where nothing is promised it must show, or this would show nothing.
    assert bool(series.lost) is not part.setting.keeps


class Fault(Exception):
    """Something that no power cut explains."""


def _series(disk: Disk, folder: Path, start: Callable[[], object]) -> Series:
    def nothing() -> None: ...

    return Series(PARTS[0], disk, Powered("", start, nothing, nothing, 1, 1), folder)


@pytest.mark.parametrize("killed", [False, True])
def test_a_start_that_power_ends_is_no_failure(disk: Disk, tmp_path: Path, killed: bool) -> None:
    def start() -> None:
        try:
            (disk.folder / "log").write_bytes(b"ready")
        except OSError as error:
            raise NotStarted("its log can't be written") from error

    series = _series(disk, tmp_path, start)
    disk.cut_at(1)
    assert not series._starts()
    series._end_of_power(killed=killed)
    assert series._starts()
    series._end_of_power(killed=killed)


def test_a_start_that_fails_while_power_is_on_is_told(disk: Disk, tmp_path: Path) -> None:
    def start() -> None:
        raise NotStarted("of itself")

    series = _series(disk, tmp_path, start)
    disk.cut_at(1)
    with pytest.raises(NotStarted, match="of itself"):
        series._starts()


def test_what_no_power_cut_explains_is_told_when_power_is_back(disk: Disk, tmp_path: Path) -> None:
    def start() -> None:
        with suppress(OSError):
            (disk.folder / "log").write_bytes(b"ready")
        raise Fault

    series = _series(disk, tmp_path, start)
    disk.cut_at(1)
    assert not series._starts()
    with pytest.raises(Fault):
        series._end_of_power(killed=False)


@pytest.mark.parametrize("end", ["killed before a sync", "stopped by failed syncs"])
def test_S3_D3_what_the_next_opener_reads_is_on_the_disk(
    disk: Disk, tmp_path: Path, end: str
) -> None:
    """A commit was written and not synced: nobody was told, yet the system shows it to who opens the file."""
    with sqlite(disk) as powered:
        writer = Life(1, powered.url, tmp_path, "first").begin()
        if end == "killed before a sync":
            disk.cut_at(40, ops=["FSYNC"])
            assert disk.is_off(60)
            writer.kill()
            disk.thaw()
        else:
            disk.fail(40, ops=["FSYNC"], forever=True)
        writer.join()
        disk.heal()
        reading = Life(2, powered.url, tmp_path, "second", Task.READ)
        reader = reading.begin()
        while not reading.found.exists():
            assert reader.is_alive(), reading.why()
            time.sleep(0.01)
        disk.cut(reader.kill)
        reader.join()
        again = Life(3, powered.url, tmp_path, "third", Task.END)
        again.begin().join()
    assert json.loads(again.found.read_bytes()) == json.loads(reading.found.read_bytes())
