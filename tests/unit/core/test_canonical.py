"""Bytes that fingerprints are made of: alike for what is equal, wherever it comes from."""

from __future__ import annotations

import msgspec
import pytest

from stepwell.core.loop.occurrences import Start
from stepwell.core.records.canonical import bytes_of
from stepwell.core.records.model import Budget, Payload, RetryPolicy, RunSpec, TaskSpec
from stepwell.core.records.record import Record
from stepwell.embedded.arguments import start_command

DECODED = RetryPolicy(backoff_multiplier=float("2"), max_backoff_ms=int("60000"))
"""Equal to the default one, of which not one value is the same object."""


def spec(**fields: object) -> RunSpec:
    return RunSpec(tenant_id="t", run_id="r", **fields)  # pyright: ignore[reportArgumentType] - fields by name


def test_S16_equal_starts_have_equal_fingerprints() -> None:
    one = spec(labels={"a": "1", "b": "2"}, step_retry=RetryPolicy())
    other = spec(labels={"b": "2", "a": "1"}, step_retry=DECODED)
    assert one == other

    def made(of: RunSpec) -> Start:
        return start_command(of, budget=None, run_input=None, plan=None, stages=())

    assert made(one).spec.request_fingerprint == made(other).spec.request_fingerprint
    another = spec(labels={"a": "1", "b": "3"})
    assert made(another).spec.request_fingerprint != made(one).spec.request_fingerprint


@pytest.mark.parametrize(
    "value",
    [
        spec(budget=Budget(cost_micros=1_000_000)),
        TaskSpec(task_id="a", depends_on=("b",), input=Payload(data=b"\0")),
        TaskSpec(task_id="a", input=Payload()),
        (TaskSpec(task_id="a"), TaskSpec(task_id="b", retry=DECODED)),
    ],
)
def test_stored_and_fresh_records_have_equal_bytes(value: object) -> None:
    kind = type(value) if not isinstance(value, tuple) else tuple[TaskSpec, ...]
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)
    assert again == value
    assert bytes_of(again) == bytes_of(value)


@pytest.mark.parametrize(
    "record", [TaskSpec(task_id="a"), RetryPolicy(), Payload(), Budget(), spec()], ids=repr
)
def test_stored_defaults_are_left_out_like_fresh_ones(record: Record) -> None:
    stored = msgspec.json.encode(msgspec.structs.asdict(record))
    again = msgspec.json.decode(stored, type=type(record))
    assert again == record
    assert bytes_of(again) == bytes_of(record)


def test_empty_bytes_differ_from_none() -> None:
    assert bytes_of(TaskSpec(task_id="a", input=Payload())) != bytes_of(TaskSpec(task_id="a"))
