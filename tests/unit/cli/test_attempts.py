"""Numbers of attempts as people are shown them."""

from __future__ import annotations

from stepwell.cli import describe
from stepwell.cli.event_lines import line
from stepwell_client.internal import MessageView
from stepwell_client.v1 import types_pb2

BACK, LOST = types_pb2.EXECUTION_STATUS_RELEASED, types_pb2.EXECUTION_STATUS_LOST
ENDS = (BACK, LOST, BACK, BACK, BACK)


def test_what_was_handed_back_is_no_attempt_to_people() -> None:
    view = MessageView(types_pb2.Run())
    for number, status in enumerate((*ENDS, types_pb2.EXECUTION_STATUS_LEASED), 1):
        one = types_pb2.Execution(
            execution_id=f"task:a#{number}",
            kind=types_pb2.STEP_KIND_TASK,
            task_id="a",
            attempt=number,
            status=status,
            worker_id="w",
        )
        view.executions[one.execution_id] = one
    assert [describe.attempt_of(view, one) for one in view.executions.values()] == [
        1,
        1,
        2,
        2,
        2,
        2,
    ]
    leased = types_pb2.Event(
        type=types_pb2.EVENT_TYPE_EXECUTION_LEASED, task_id="a", execution_id="task:a#6"
    )
    assert line(view, leased).endswith("taken by w, attempt 2")
