"""The rows that the conformance suite stores and reads back leave no field of a run, or of a journal's entry, at its default."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import fields

from stepwell.core.records.record import UNKNOWN
from stepwell_testkit.conformance.odd_rows import full_commit, odd_entry


def default_of(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


@pytest.mark.parametrize(
    "record",
    [full_commit().run, full_commit().run.spec, odd_entry()],
    ids=["run", "spec", "entry"],
)
def test_odd_rows_set_every_field(record: msgspec.Struct) -> None:
    unset = [one.name for one in fields(record) if getattr(record, one.name) == default_of(one)]

    assert set(unset) <= {UNKNOWN}, (
        "a store that loses these fields would pass: set them in odd_rows"
    )
