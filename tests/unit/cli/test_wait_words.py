"""Phrases of the command line for what a blocked task waits for."""

from __future__ import annotations

import pytest

from stepwell.cli import describe
from stepwell_client.internal import MessageView
from stepwell_client.v1 import types_pb2

QUESTION = types_pb2.Wait(kind=types_pb2.WAIT_KIND_QUESTION, question_id="question:1")
SLEEP = types_pb2.Wait(kind=types_pb2.WAIT_KIND_SLEEP)
BUDGET = types_pb2.Wait(kind=types_pb2.WAIT_KIND_BUDGET)


@pytest.mark.parametrize(
    ("task", "phrase"),
    [
        (types_pb2.Task(question_id="question:1"), "asks: may I?"),
        (types_pb2.Task(waits=[SLEEP, QUESTION]), "asks: may I?"),
        (types_pb2.Task(question_id="question:unread"), "waits for an answer"),
        (types_pb2.Task(waits=[SLEEP]), "sleeps"),
        (types_pb2.Task(waits=[BUDGET]), "waits for a higher budget"),
        (types_pb2.Task(), "nobody knows what came of it"),
    ],
    ids=["asks", "asks within a step", "unread question", "sleeps", "budget", "unknown outcome"],
)
def test_blocked_task_says_what_it_waits_for(task: types_pb2.Task, phrase: str) -> None:
    view = MessageView(types_pb2.Run())
    view.questions["question:1"] = types_pb2.Question(question_id="question:1", prompt="may I?")

    assert describe.task_waits(view, task) == phrase


def test_run_that_used_up_its_budget_is_advised_a_command_with_a_new_limit() -> None:
    run = types_pb2.Run(
        status=types_pb2.RUN_STATUS_PAUSED, pause_reason=types_pb2.PAUSE_REASON_BUDGET_EXHAUSTED
    )

    assert describe.advice(run, "3f2a9c1e") == (
        "raise a limit: stepwell budget 3f2a9c1e --tokens-in N"
        " (or --tokens-out, --cost, --tasks, --iterations, --wall)"
    )
