"""Numbers of attempts as people are shown them."""

from __future__ import annotations

from stepwell.cli.view import describe
from stepwell.cli.view.event_lines import line
from stepwell_client import (
    Event,
    EventType,
    Execution,
    ExecutionStatus,
    Run,
    RunView,
    StepKind,
)

BACK, LOST = ExecutionStatus.RELEASED, ExecutionStatus.LOST
ENDS = (BACK, LOST, BACK, BACK, BACK)


def test_what_was_handed_back_is_no_attempt_to_people() -> None:
    view = RunView(Run())
    for number, status in enumerate((*ENDS, ExecutionStatus.LEASED), 1):
        one = Execution(
            id=f"task:a#{number}",
            kind=StepKind.TASK,
            task_id="a",
            attempt=number,
            status=status,
            worker_id="w",
        )
        view.executions[one.id] = one
    assert [describe.attempt_of(view, one) for one in view.executions.values()] == [
        1,
        1,
        2,
        2,
        2,
        2,
    ]
    leased = Event(type=EventType.EXECUTION_LEASED, task_id="a", execution_id="task:a#6")
    assert line(view, leased).endswith("taken by w, attempt 2")
