"""Power cuts: nothing acknowledged is lost with the defaults, and it shows where that isn't promised."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest

from stepwell.core.records.states import Durability
from tests.chaos.disk.disk import Disk
from tests.chaos.disk.powered import postgres, redis, sqlite
from tests.chaos.disk.series import Part, Setting, play
from tests.chaos.load.lives import Life, Task
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
def test_S3_power_cut_loses_nothing_acknowledged_where_promised(
    disk: Disk, tmp_path: Path, part: Part
) -> None:
    series = play(part, disk, tmp_path)
    assert series.acknowledged > 0
    # Where nothing is promised it must show, or this would show nothing.
    assert bool(series.lost) is not part.setting.keeps


@pytest.mark.parametrize("end", ["killed before a sync", "stopped by failed syncs"])
def test_S3_D3_opener_reads_only_what_is_on_the_disk(disk: Disk, tmp_path: Path, end: str) -> None:
    """A commit was written, neither synced nor acknowledged, yet the system shows it to the file's next opener."""
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
