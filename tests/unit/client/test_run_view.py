"""Changes of rows as records, and the rows that a RunView folds from them."""

from __future__ import annotations

from stepwell.core.records import model
from stepwell.core.records.events import ExecutionChange, RunChange, TaskChange
from stepwell.wire.records import to_message
from stepwell_client import BlockedKind, Budget, Event, Run, RunStatus, RunView, TaskStatus
from stepwell_client.enums import Phase
from stepwell_client.internal import read_event, read_record
from stepwell_client.v1 import types_pb2

TASK_AGAIN = TaskChange(task_id="t", failure=model.Failure(), started_us=0, ended_us=0)
ATTEMPT_AGAIN = ExecutionChange(execution_id="x", failure=model.Failure(), unknown_us=0)
RUN_AGAIN = RunChange(failure=model.Failure(), ended_us=0, blocked_since_us=0)


def an_event() -> Event:
    message = types_pb2.Event(
        number=2,
        run=to_message(RUN_AGAIN),
        tasks=[to_message(TASK_AGAIN)],
        executions=[to_message(ATTEMPT_AGAIN)],
    )
    return read_event(message, "r")


def test_field_that_an_event_clears_is_none() -> None:
    event = an_event()

    assert event.run == dict.fromkeys(("failure", "ended_time", "blocked_since_time"))
    assert event.tasks == {"t": dict.fromkeys(("failure", "started_time", "ended_time"))}
    assert event.executions == {"x": dict.fromkeys(("failure", "unknown_time"))}


def test_task_that_is_tried_again_is_folded_to_one_without_a_failure() -> None:
    failed = types_pb2.TaskChange(task_id="t", failure=types_pb2.Failure(kind="K"))
    failed.ended_time.FromSeconds(9)
    view = RunView(Run(id="r"))
    view.apply(read_event(types_pb2.Event(number=1, tasks=[failed]), "r"))
    assert view.tasks["t"].failure is not None
    assert view.tasks["t"].ended_time is not None

    view.apply(an_event())

    task = view.tasks["t"]
    assert (task.failure, task.ended_time, task.status) == (None, None, TaskStatus.PENDING)


def test_view_before_the_events_has_nothing_of_a_later_pause() -> None:
    run = types_pb2.Run(
        spec=types_pb2.RunSpec(run_id="r", goal="g", budget=types_pb2.Budget(tasks=3)),
        status=types_pb2.RUN_STATUS_PAUSED,
        phase=types_pb2.PHASE_EXECUTING,
        iteration=2,
        stages=[types_pb2.STEP_KIND_REFLECT],
        pause_reason=types_pb2.PAUSE_REASON_REQUESTED,
        finish_reason=types_pb2.FINISH_REASON_STOPPED,
        blocked_on=types_pb2.BLOCKED_KIND_PAUSED,
        reason="wait",
        stopping=True,
        actor="me",
        budget=types_pb2.Budget(tasks=3),
    )
    run.started_time.FromSeconds(9)

    before = RunView.before_events(read_record(run, Run)).run

    assert before == Run(
        id="r",
        goal="g",
        budget=Budget(tasks=3),
        status=RunStatus.QUEUED,
        phase=Phase.PLANNING,
        iteration=1,
        blocked_on=BlockedKind.NONE,
    )
