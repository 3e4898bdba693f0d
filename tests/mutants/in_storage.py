"""Bugs below the drivers: how a database is set, and what is made of a disk that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell_drivers.sql.sqlite import writer
from tests.mutants import powercut
from tests.mutants.by_tests import ByTests
from tests.mutants.planting import Swap, hidden
from tests.mutants.powercut import PowerCut
from tests.mutants.shelf import Shelf

BUGS = Shelf()

SQLITE = "tests/contract/drivers/test_sqlite.py"


@BUGS.put("synchronous-normal", PowerCut("sqlite", 6), "S3")
def _synchronous_normal() -> list[Swap]:
    """SQLite is opened with `synchronous=NORMAL`, as most guides to WAL say."""
    return [(powercut, "SYNCHRONOUS", "NORMAL")]


@BUGS.put("append-every-second", PowerCut("redis", 4), "S3")
def _append_every_second() -> list[Swap]:
    """Redis is left at `appendfsync everysec`, its default, and taken for durable."""
    return [(powercut, "APPENDFSYNC", "everysec")]


@BUGS.put(
    "goes-on-after-a-failed-fsync",
    ByTests("failing disks", (f"{SQLITE}::test_D3_after_a_failed_fsync_nothing_is_acknowledged",)),
    "D3",
)
def _goes_on_after_a_failed_fsync() -> list[Swap]:
    """A failed fsync is tried again: the kernel has dropped the pages by then, and the second one succeeds."""
    honest: Callable[..., Any] = hidden(writer, "trouble_of")

    def trouble_of(error: BaseException, *, committing: bool = False) -> Any:
        return honest(error, committing=committing)._replace(fatal=False)

    return [(writer, "trouble_of", trouble_of)]
