"""Records of what a server returns: every field of the protocol, enums, datetimes, timedeltas, a short `repr`."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.message import Message

from stepwell_client import (
    Budget,
    Event,
    EventType,
    Payload,
    Plan,
    PlanRevision,
    Question,
    Retry,
    Run,
    RunStatus,
    RunTask,
    StepKind,
    Task,
    TaskStatus,
    encode,
    internal,
)
from stepwell_client.enums import WaitKind
from stepwell_client.errors import Violation
from stepwell_client.records import Counts, FailureRecord, Wait
from stepwell_client.v1 import orchestrator_pb2, types_pb2

LEFT_OUT = {"ForkRunResponse": {"created"}, "Result": {"by_reference"}}
"""The fields that a call has used up before it returns the record."""


@pytest.mark.parametrize("kind", internal.RECORDS, ids=lambda kind: kind.DESCRIPTOR.name)
def test_record_has_every_field_that_is_not_left_out_on_purpose(kind: type[Message]) -> None:
    read = internal.field_readers(kind)

    unread = {one.name for one in kind.DESCRIPTOR.fields if one.name not in read}
    assert unread == LEFT_OUT.get(kind.DESCRIPTOR.name, set())


@pytest.mark.parametrize("kind", internal.RECORDS, ids=lambda kind: kind.DESCRIPTOR.name)
def test_empty_message_is_a_record_of_defaults(kind: type[Message]) -> None:
    record = internal.RECORDS[kind]
    given: dict[str, Any] = {"id": ""} if record is Task else {}

    assert internal.read_record(kind(), record, **given) == record(**given)


def a_run() -> types_pb2.Run:
    run = types_pb2.Run(
        spec=types_pb2.RunSpec(
            run_id="r",
            pipeline_id="p",
            goal="g" * 100,
            labels={"team": "x"},
            budget=types_pb2.Budget(tasks=1),
            worker_version=types_pb2.WorkerVersion(
                match=types_pb2.VERSION_MATCH_AT_LEAST, version="1.4"
            ),
            step_retry=types_pb2.RetryPolicy(max_attempts=2),
        ),
        status=types_pb2.RUN_STATUS_FAILED,
        stages=[types_pb2.STEP_KIND_REFLECT],
        counts=types_pb2.Counts(total=3),
        budget=types_pb2.Budget(tasks=2),
        failure=types_pb2.Failure(
            kind="K", violations=[types_pb2.Violation(field="a", description="b")]
        ),
    )
    run.budget.wall.FromMilliseconds(1500)
    run.created_time.FromMilliseconds(1)
    return run


def test_run_is_flat_and_has_the_budget_in_force() -> None:
    run = internal.read_record(a_run(), Run)

    assert (run.id, run.pipeline, run.labels) == ("r", "p", {"team": "x"})
    assert run.status is RunStatus.FAILED
    assert run.has_ended
    assert run.stages == (StepKind.REFLECT,)
    assert run.budget == Budget(tasks=2, wall=timedelta(seconds=1.5))
    assert run.worker_version == ">=1.4"
    assert run.step_retry == Retry(max_attempts=2)
    assert run.created_time == datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)
    assert run.failure == FailureRecord(kind="K", violations=(Violation("a", "b"),))


def test_repr_is_short_and_has_what_differs_from_the_defaults() -> None:
    assert repr(internal.read_record(a_run(), Run)) == (
        f"Run(id='r', status=FAILED, goal='{'g' * 59}…', pipeline='p', labels={{'team': 'x'}}, "
        "counts=Counts(total=3), budget=Budget(tasks=2, "
        "wall=datetime.timedelta(seconds=1, microseconds=500000)), failure=FailureRecord(kind='K', "
        "violations=(Violation(field='a', description='b'))), "
        "created_time=1970-01-01T00:00:00.001000+00:00, worker_version='>=1.4')"
    )
    assert repr(Wait(call="c", kind=WaitKind.SLEEP)) == "Wait(call='c', kind=SLEEP)"
    assert repr(PlanRevision(revision=1)) == "PlanRevision(revision=1)"
    assert repr(Payload(b"x" * 2000)) == "Payload(2,000 bytes, 'application/json')"


def test_records_are_frozen_and_can_be_pickled_copied_and_listed() -> None:
    run = internal.read_record(a_run(), Run)

    with pytest.raises(dataclasses.FrozenInstanceError):
        run.goal = "another"  # pyright: ignore[reportAttributeAccessIssue] - it is what is tested
    assert pickle.loads(pickle.dumps(run)) == copy.deepcopy(run) == run
    assert dataclasses.asdict(run)["counts"]["total"] == 3


def test_number_that_only_a_newer_server_knows_is_a_member() -> None:
    run = internal.read_record(types_pb2.Run(status=99), Run)  # pyright: ignore[reportArgumentType] - it is what is tested

    assert run.status == 99
    assert f"{run.status}" == "99"
    assert not run.has_ended
    assert pickle.loads(pickle.dumps(run)) == run
    assert 99 not in list(RunStatus)
    with pytest.raises(ValueError, match="'nine'"):
        RunStatus("nine")


def test_event_has_the_changed_fields_by_the_names_of_the_records() -> None:
    event = internal.read_event(
        types_pb2.Event(
            number=3,
            type=types_pb2.EVENT_TYPE_TASK_COMPLETED,
            run=types_pb2.RunChange(
                counts=types_pb2.Counts(completed=1),
                step_waits=types_pb2.Waits(waits=[types_pb2.Wait(call="c")]),
                stages=types_pb2.Stages(),
            ),
            tasks=[types_pb2.TaskChange(task_id="a", status=types_pb2.TASK_STATUS_COMPLETED)],
            executions=[types_pb2.ExecutionChange(execution_id="x", attempt=0)],
            questions=[types_pb2.Question(question_id="i", prompt="?")],
        ),
        "r",
    )

    assert event == Event(
        number=3,
        type=EventType.TASK_COMPLETED,
        run={"counts": Counts(completed=1), "step_waits": (Wait(call="c"),), "stages": ()},
        tasks={"a": {"status": TaskStatus.COMPLETED}},
        executions={"x": {"attempt": 0}},
        questions=(Question(id="i", run_id="r", prompt="?"),),
    )


def test_tasks_of_a_plan_that_was_read_start_another_run_with_the_same_plan() -> None:
    group: dict[str, Any] = {
        "after_growth": True,
        "group": "c",
        "gathers": "d",
        "at_least": 2,
        "failures_max": 1,
    }
    task = Task(
        "b", "type", {"n": 1}, ["a"], retry=Retry(max_attempts=2), attempt_timeout=1.5, **group
    )
    spec = types_pb2.TaskSpec()
    task.fill(spec)
    entry = orchestrator_pb2.TaskEntry(task=types_pb2.Task(task_id="b"), spec=spec)

    read = internal.read_task(entry)

    again = types_pb2.TaskSpec()
    Plan([read.definition]).tasks[0].fill(again)
    assert again == spec
    assert read == RunTask(id="b", definition=read.definition)


def test_payload_is_decoded_as_asked_and_sent_as_it_is() -> None:
    payload = Payload(b'{"kind": "k"}')

    assert payload.value == {"kind": "k"}
    assert payload.decode(dict[str, str]) == {"kind": "k"}
    assert encode(payload) == types_pb2.Payload(data=payload.data, media_type=payload.media_type)
