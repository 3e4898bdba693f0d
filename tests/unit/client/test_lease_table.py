"""The table that a worker shares with its keeper, and when a keeper is wanted."""

from __future__ import annotations

import os
import sys

import pytest

from stepwell_client.errors import Misconfigured
from stepwell_client.worker.keeper import is_wanted
from stepwell_client.worker.lease_table import (
    ACTIVE_AT,
    BEAT_AT,
    SLOT_BYTES,
    KeptLease,
    LeaseTable,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no keeper")


def test_leases_are_read_from_the_same_file_until_they_are_freed() -> None:
    table = LeaseTable(3)
    other = LeaseTable(3, table.file)
    notes = [table.add(b"%d" % n, now=10.0, interval=n, idle_timeout=0.5) for n in range(4)]
    first, second, third, fourth = notes
    assert first is not None
    assert second is not None
    assert third is not None
    assert fourth is None
    first(BEAT_AT, 11.0)
    second(ACTIVE_AT, 12.0)
    third(BEAT_AT, 0.0)
    third(BEAT_AT, 13.0)

    assert list(other.leases()) == [
        KeptLease(11.0, 10.0, 0.0, 0.5, b"0"),
        KeptLease(10.0, 12.0, 1.0, 0.5, b"1"),
    ]
    os.close(table.file)


def test_freed_place_is_taken_by_another_lease() -> None:
    table = LeaseTable(1)
    first = table.add(b"first", now=1.0, interval=1.0, idle_timeout=0.0)
    assert first is not None
    first(BEAT_AT, 0.0)
    first(BEAT_AT, 0.0)
    assert table.add(b"second", now=2.0, interval=1.0, idle_timeout=0.0)

    assert [(one.lease, one.beat_at) for one in table.leases()] == [(b"second", 2.0)]
    assert table.add(b"third", now=3.0, interval=1.0, idle_timeout=0.0) is None
    os.close(table.file)


def test_lease_that_has_no_room_or_is_half_written_is_not_read() -> None:
    table = LeaseTable(2)
    assert table.add(bytes(SLOT_BYTES), now=1.0, interval=1.0, idle_timeout=0.0) is None
    assert table.add(b"whole", now=1.0, interval=1.0, idle_timeout=0.0)
    assert len(list(table.leases())) == 1
    os.pwrite(table.file, b"W", SLOT_BYTES + 40)

    assert list(table.leases()) == []
    os.close(table.file)


def test_keeper_is_wanted_by_default_where_this_interpreter_can_start_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_wanted(None, {})
    assert is_wanted(None, {"STEPWELL_KEEPER": "TRUE"})
    assert is_wanted(True, {"STEPWELL_KEEPER": "0"})
    assert not is_wanted(None, {"STEPWELL_KEEPER": "false"})
    assert not is_wanted(False, {})
    with pytest.raises(Misconfigured, match="STEPWELL_KEEPER is true or false, not 'perhaps'"):
        is_wanted(None, {"STEPWELL_KEEPER": "perhaps"})
    monkeypatch.setattr(sys, "executable", "")
    assert not is_wanted(True, {})
