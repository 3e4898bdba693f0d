"""Power cuts as a check: a store on a disk that forgets what was not synced."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stepwell.core.records.states import Durability
from tests.chaos.disk.disk import Disk, disk
from tests.chaos.disk.powered import Powered, redis, sqlite
from tests.chaos.disk.series import Part, Series, Setting
from tests.mutants.bug import Caught, Unnoticed

SYNCHRONOUS = "FULL"
APPENDFSYNC = "always"
"""What the databases are set to; what is planted here are their settings."""


class PowerCut(NamedTuple):
    """So many cuts at the most."""

    store: str
    cuts: int
    unit: str = "cuts"

    @property
    def proof(self) -> str:
        """Which store stands on the disk."""
        return f"power cuts, {self.store}"

    def play(self, invariants: tuple[str, ...]) -> Caught:
        """Cut power a few times, and again, until something acknowledged is lost."""
        lost, where, tried = _lost(self.store, self.cuts)
        if not lost:
            raise Unnoticed(f"nothing was lost in {self.cuts} cuts")
        return Caught(("S3",), where, tried, partial(_again, self.store, self.cuts))


def _again(store: str, cuts: int) -> None:
    lost, where, _ = _lost(store, cuts)
    assert not lost, f"S3: {where}"


def _lost(store: str, cuts: int) -> tuple[int, str, int]:
    serve: dict[str, Callable[[Disk], AbstractContextManager[Powered]]] = {
        "sqlite": sqlite,
        "redis": partial(redis, appendfsync=APPENDFSYNC),
    }
    weaker = APPENDFSYNC != "always"
    setting = Setting(
        f"teeth, {store}",
        serve[store],
        # What the store declares of itself; a bug doesn't change what it should keep.
        Durability.VOLATILE if weaker and store == "redis" else Durability.POWER,
        plant="" if SYNCHRONOUS == "FULL" or store != "sqlite" else SYNCHRONOUS,
    )
    with disk() as fresh, tempfile.TemporaryDirectory() as folder, setting.serve(fresh) as powered:
        series = Series(Part(setting, range(cuts)), fresh, powered, Path(folder))
        while series.cuts < cuts and not series.lost:
            series.cut()
        series.end()
    where = f"{series.lost} of {series.acknowledged} acknowledged commits were lost"
    return series.lost, where, series.cuts
