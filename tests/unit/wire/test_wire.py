"""Records to messages and back: nothing is lost, changed or made up."""

from __future__ import annotations

import inspect
import math
import types
from enum import StrEnum
from typing import Any, get_args, get_origin

import pytest
from google.protobuf.message import Message as ProtoMessage
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import NODEFAULT, UNSET, UnsetType
from msgspec.structs import FieldInfo, fields
from scripts import conversions
from scripts.conversions.checks import Checks
from scripts.conversions.fields import Pair
from scripts.conversions.functions import Source, write_pairs

from stepwell.core import port
from stepwell.core.loop import occurrences
from stepwell.core.port import AssignedExecution, AssignedRun, Assignment, Timer
from stepwell.core.records import model, states
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.events import Event, ExecutionChange, RunChange, TaskChange
from stepwell.core.records.model import (
    Counts,
    Failure,
    Payload,
    Record,
    RetryPolicy,
    Run,
    RunSpec,
    Session,
    Tally,
    TaskSpec,
    Usage,
)
from stepwell.core.records.record import UNKNOWN, StoredRecord
from stepwell.core.records.states import StepKind
from stepwell.core.records.step_journal import Journal
from stepwell.core.records.task_spec import ChildRun
from stepwell.wire.conversions_pb2 import MESSAGES
from stepwell.wire.records import fill, to_message, to_record
from stepwell_client.store.v1 import store_pb2
from stepwell_client.v1 import types_pb2, worker_pb2

SHOWN = {
    *(Run, RunSpec, model.Task, model.Execution),
    *(Event, RunChange, TaskChange, ExecutionChange),
}
"""Records of which callers see a part."""
BY_NAME = {kind.__name__: kind for kind in sorted(MESSAGES, key=str)}
NOW_US = 1_763_764_000_123_457

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["\x00", "a\x00b", "../{}%:", "\u202eabc", "𝔘𝔫𝔦", "\n\r\t", " ", "x" * 1024, "\ufeff"]
)
INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 2**53 + 1, -1])
INT32 = st.integers(-(2**31), 2**31 - 1)
NARROW = {
    field.name
    for file in (types_pb2, worker_pb2, store_pb2)
    for message in file.DESCRIPTOR.message_types_by_name.values()
    for field in message.fields
    if field.type == field.TYPE_INT32
}
MICROSECONDS = st.integers(0, 2**60) | st.sampled_from([0, 1, 999_999, NOW_US, 2**53 + 1])
MILLISECONDS = st.integers(0, 2**50) | st.sampled_from([0, 1, 999, 60_000])


def scalars(kind: Any, name: str) -> st.SearchStrategy[Any] | None:
    """Values of a kind that is no record and no list."""
    if kind is int and name in NARROW:
        return INT32
    if kind is int and name.endswith("_us"):
        return MICROSECONDS
    if kind is int and name.endswith("_ms"):
        negative = name in {"delay_ms", "next_due_ms"}
        return MILLISECONDS | st.just(-1) if negative else MILLISECONDS
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: INT64,
        bytes: st.binary(max_size=16),
        bool: st.booleans(),
        float: st.floats(allow_nan=False),
        UnsetType: st.just(UNSET),
        types.NoneType: st.none(),
    }
    return plain.get(kind)


def values(kind: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Any value that a record's field of this kind may hold."""
    found = scalars(kind, name)
    if found is not None:
        return found
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0], name), max_size=2).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(TEXT, values(get_args(kind)[1], name), max_size=3)
    if get_args(kind):
        return st.one_of(*(values(one, name) for one in get_args(kind)))
    return records(kind)


def records(kind: type[Record]) -> st.SearchStrategy[Record]:
    """Records of a kind, each field at its default or with any value."""

    def of(field: FieldInfo) -> st.SearchStrategy[Any]:
        if kind is ChildRun and field.name == "tasks":
            # A task may be a child run, which has tasks.
            return st.just(()) | st.just((TaskSpec(task_id="a", child=ChildRun(goal="b")),))
        anything = values(field.type, field.name)
        return anything if field.default is NODEFAULT else st.just(field.default) | anything

    return st.builds(
        kind, **{field.name: of(field) for field in fields(kind) if field.name != UNKNOWN}
    )


def through_bytes(record: Record) -> Any:
    """The record, after it was a message, the whole one where there are two, and bytes."""
    kind = getattr(store_pb2, type(record).__name__, None) or type(to_message(record))
    message = kind()
    fill(record, message)
    return to_record(kind.FromString(message.SerializeToString()))


def defined_in(module: types.ModuleType) -> set[type[Record]]:
    return {
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Record) and kind is not Record
    }


def test_the_protocol_carries_every_record_of_model_and_ports() -> None:
    generic = {port.Query, port.Page, StoredRecord}
    assert (defined_in(model) | defined_in(port)) - MESSAGES.keys() == generic


def test_every_method_of_the_store_is_an_rpc() -> None:
    service = store_pb2.DESCRIPTOR.services_by_name["Store"]
    rpcs = {method.name for method in service.methods}
    methods = {
        "".join(word.capitalize() for word in name.split("_"))
        for name, member in vars(port.Store).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    # A caller closes its channel, not the store behind it.
    assert methods - {"Close"} == rpcs


@pytest.mark.parametrize("kind", BY_NAME.values(), ids=BY_NAME)
def test_every_record_comes_back_as_it_was(kind: type[Record]) -> None:
    @settings(max_examples=40)
    @given(records(kind))
    def check(record: Record) -> None:
        back = through_bytes(record)
        assert type(back) is kind
        assert back == record

    check()


def test_absent_and_empty_bytes_differ() -> None:
    empty = TaskSpec(task_id="a", input=Payload(data=b"", media_type=""))
    assert through_bytes(empty).input == Payload(data=b"", media_type="")
    assert through_bytes(TaskSpec(task_id="a", input=Payload())).input == Payload()
    assert through_bytes(TaskSpec(task_id="a")).input is None


def test_unset_differs_from_a_change_to_zero() -> None:
    zero = RunChange(
        iteration=0, reason="", stages=(), ended_us=0, usage=Usage(), failure=Failure()
    )
    back = through_bytes(zero)
    assert back == zero
    assert back.iteration == 0
    assert back.stages == ()
    assert back.ended_us == 0
    assert back.status is UNSET
    assert through_bytes(RunChange()) == RunChange()


@pytest.mark.parametrize("us", [0, 1, 999_999, 1_000_000, NOW_US, 2**53 + 1])
def test_moments_are_exact_to_the_microsecond(us: int) -> None:
    run = Run(spec=RunSpec(tenant_id="t", run_id="r"), created_us=us)
    assert through_bytes(run).created_us == us


@pytest.mark.parametrize("ms", [-1, 0, 1, 999, 1_000, 1_001, -1_500, 2**53 + 1])
def test_spans_are_exact_to_the_millisecond(ms: int) -> None:
    assert through_bytes(Timer(name="t", delay_ms=ms)).delay_ms == ms


def test_a_part_of_a_millisecond_never_becomes_no_limit() -> None:
    message = types_pb2.TaskSpec(task_id="a")
    message.attempt_timeout.nanos = 1
    assert to_record(message).attempt_timeout_ms == 1


def test_omitted_field_is_the_records_default() -> None:
    assert to_record(types_pb2.RetryPolicy()) == RetryPolicy()
    assert to_record(types_pb2.TaskSpec(task_id="a")) == TaskSpec(task_id="a")
    assert to_record(types_pb2.Payload(data=b"x")).media_type == "application/json"
    assert to_record(types_pb2.Failure()).retryable is True


def test_defaults_that_are_not_zero_are_sent_for_readers_that_do_not_know_them() -> None:
    retry = to_message(RetryPolicy())
    assert retry.max_attempts == 3
    assert retry.initial_backoff.seconds == 1
    assert to_message(Payload(data=b"x")).media_type == "application/json"
    assert to_message(Run(spec=RunSpec(tenant_id="t", run_id="r"))).iteration == 1


def test_the_sign_of_zero_is_kept() -> None:
    assert math.copysign(1, through_bytes(RetryPolicy(jitter=-0.0)).jitter) == -1


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (store_pb2.Execution(execution_id="e"), "kind"),
        (store_pb2.ExecutionChange.FromString(b"\x10\x63"), "kind"),
        (types_pb2.TaskSpec.FromString(b"\x60\x63"), "on_failure"),
        (store_pb2.Run.FromString(b"\x0a\x00\x40\x00"), "stages"),
        (store_pb2.RunChange(status=types_pb2.RUN_STATUS_UNSPECIFIED), "status"),
        (store_pb2.Run(), "spec"),
        (worker_pb2.Outcome(lease=worker_pb2.Lease(execution_id="e")), "result"),
        (store_pb2.Due.FromString(b"\x18\x04"), "kind"),
    ],
)
def test_unrepresentable_value_is_refused_by_field_name(message: ProtoMessage, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        to_record(message)
    assert [violation.field for violation in caught.value.violations] == [field]


def test_outcome_becomes_a_delivery_with_its_other_fields() -> None:
    outcome = worker_pb2.Outcome(
        delivery_id="d1",
        lease=worker_pb2.Lease(run_id="r", execution_id="task:a#1", token="secret"),
        planned=worker_pb2.Outcome.Planned(
            plan=types_pb2.PlanDraft(tasks=[types_pb2.TaskSpec(task_id="a")]), reason="why"
        ),
    )
    assert to_record(outcome) == occurrences.Delivery(
        execution_id="task:a#1",
        token="secret",
        result=occurrences.Planned(tasks=(TaskSpec(task_id="a"),), reason="why"),
    )


def test_an_assignment_carries_its_token_under_the_worker_s_name_for_it() -> None:
    run = AssignedRun(tenant_id="t", run_id="r")
    execution = AssignedExecution(execution_id="e", kind=StepKind.TASK)
    assignment = Assignment(run=run, execution=execution, token="secret", lease_ms=30_000)
    message = to_message(assignment)
    assert message.lease.token == "secret"
    assert message.lease_duration.seconds == 30


@pytest.mark.parametrize("kind", sorted(SHOWN, key=str), ids=lambda kind: kind.__name__)
@settings(max_examples=10)
@given(data=st.data())
def test_callers_see_the_fields_that_the_store_has(kind: type[Record], data: st.DataObject) -> None:
    record = data.draw(records(kind))
    seen, kept = to_message(record), getattr(store_pb2, kind.__name__)()
    fill(record, kept)
    own = type(seen).DESCRIPTOR.fields_by_name
    for name, field in type(kept).DESCRIPTOR.fields_by_name.items():
        if name not in own or ((it := field.message_type) and it != own[name].message_type):
            continue
        assert getattr(seen, name) == getattr(kept, name)
    with pytest.raises(KeyError):
        to_record(seen)


def test_a_run_shows_what_its_budget_counts() -> None:
    tally = Tally(tasks=7, iterations_before=2, digest=99)
    spec = RunSpec(tenant_id="t", run_id="r", request_fingerprint="secret")
    whole = to_message(Run(spec=spec, tally=tally))
    assert (whole.tasks_used, whole.iterations_before) == (7, 2)
    change = to_message(RunChange(tally=tally))
    assert (change.tasks_used, change.iterations_before) == (7, 2)
    assert not to_message(RunChange()).HasField("tasks_used")


def test_a_task_shows_what_its_attempts_left() -> None:
    left = model.Previous(progress=Payload(data=b"1"))
    task = model.Task(task_id="a", revision=1, previous=left, journal=Journal(entries=3))
    shown = to_message(task)
    assert (shown.progress.data, shown.journal_entries) == (b"1", 3)
    assert to_message(TaskChange(task_id="a", journal=Journal())).HasField("journal_entries")


def test_generated_conversions_are_those_of_the_protocol_and_the_records() -> None:
    assert conversions.FILE.read_text(encoding="utf-8") == conversions.text()


def test_fill_writes_into_a_message_and_makes_it_present() -> None:
    task = types_pb2.TaskSpec(task_id="a")
    fill(Usage(), worker_pb2.Outcome().usage)
    fill(Payload(data=b"", media_type=""), task.input)
    assert task.HasField("input")


@pytest.mark.parametrize(
    "pair",
    [
        Pair(Usage, types_pb2.Budget),
        Pair(Counts, types_pb2.Usage),
        Pair(Usage, types_pb2.Usage, message_only={"no_such_field": "never there"}),
        Pair(Session, types_pb2.Session, renamed={"backend": "name"}),
        Pair(model.LogEntry, types_pb2.Message),
    ],
)
def test_a_field_without_its_like_is_an_error_of_the_generation(pair: Pair) -> None:
    with pytest.raises(TypeError):
        write_pairs([pair], Checks(), Source())


def test_every_enum_has_the_same_names_in_the_protocol() -> None:
    for module in (types_pb2, store_pb2):
        for name, kind in module.DESCRIPTOR.enum_types_by_name.items():
            if name == "View":  # It is of requests, and the loop knows none.
                continue
            words = {value.name for value in kind.values}
            prefix = next(word for word in words if word.endswith("UNSPECIFIED"))[:-11]
            members = set(getattr(states, name).__members__)
            assert {word.removeprefix(prefix) for word in words} == members | {"UNSPECIFIED"}
