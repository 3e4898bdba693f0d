"""Phrases of the command line for what a blocked task waits for."""

from __future__ import annotations

import pytest

from stepwell.cli.view import describe
from stepwell_client import Question, Run, RunStatus, RunTask, RunView
from stepwell_client.enums import PauseReason, WaitKind
from stepwell_client.records import Wait

QUESTION = Wait(kind=WaitKind.QUESTION, question_id="question:1")
SLEEP = Wait(kind=WaitKind.SLEEP)
BUDGET = Wait(kind=WaitKind.BUDGET)
CHILD = Wait(kind=WaitKind.CHILD, question_id="question:2", call="0b5e")


@pytest.mark.parametrize(
    ("task", "phrase"),
    [
        (RunTask(question_id="question:1"), "asks: may I?"),
        (RunTask(waits=(SLEEP, QUESTION)), "asks: may I?"),
        (RunTask(question_id="question:unread"), "waits for an answer"),
        (RunTask(waits=(SLEEP,)), "sleeps"),
        (RunTask(waits=(BUDGET,)), "waits for a higher budget"),
        (RunTask(waits=(CHILD,)), "waits for a child run"),
        (RunTask(waits=(CHILD,), question_id="question:2"), "is child run 0b5e"),
        (RunTask(), "nobody knows what came of it"),
    ],
    ids=[
        "asks",
        "asks within a step",
        "unread question",
        "sleeps",
        "budget",
        "child",
        "is a child",
        "unknown outcome",
    ],
)
def test_blocked_task_says_what_it_waits_for(task: RunTask, phrase: str) -> None:
    view = RunView(Run())
    view.questions["question:1"] = Question(id="question:1", prompt="may I?")

    assert describe.task_waits(view, task) == phrase


def test_run_that_used_up_its_budget_is_advised_a_command_with_a_new_limit() -> None:
    run = Run(status=RunStatus.PAUSED, pause_reason=PauseReason.BUDGET_EXHAUSTED)

    assert describe.advice(run, "3f2a9c1e") == (
        "raise a limit: stepwell budget 3f2a9c1e --tokens-in N"
        " (or --tokens-out, --cost, --tasks, --iterations, --wall)"
    )
