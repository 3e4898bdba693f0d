"""The live view of a run: what it says of a silent server, of attempts, and of how far the run is."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from stepwell.cli.view.live import LiveTree
from stepwell_client import (
    BlockedKind,
    ConnectedWorker,
    Execution,
    ExecutionStatus,
    LogEntry,
    LogKind,
    Payload,
    Question,
    Run,
    RunStatus,
    RunTask,
    RunView,
    StepKind,
    Task,
    TaskStatus,
)
from stepwell_client.enums import QuestionStatus
from stepwell_client.records import HeldStep, Usage
from stepwell_testkit.runtime import ManualRuntime

STEP, TASK = StepKind.REFLECT, StepKind.TASK
LEASED, DONE = ExecutionStatus.LEASED, ExecutionStatus.COMPLETED
RUNNING, COMPLETED = TaskStatus.RUNNING, TaskStatus.COMPLETED
LONG_ID = "summarize-the-chapter-7"


class Screen:
    """A live view of a run with these tasks, and what it draws."""

    def __init__(
        self,
        tasks: Mapping[str, TaskStatus],
        *,
        width: int = 60,
        encoding: str = "utf-8",
    ) -> None:
        self.runtime = ManualRuntime()
        self.silent_s = 0.0
        began = datetime.fromtimestamp((self.runtime.now_us() - 5_000_000) / 1_000_000, UTC)
        self.view = RunView(
            Run(
                id="3f2a9c1e-0000-4000-8000-000000000000",
                status=RunStatus.RUNNING,
                iteration=1,
                stages=(STEP,),
                max_iterations=5,
                started_time=began,
            )
        )
        for task_id, status in tasks.items():
            self._add_task(task_id, status, began)
        file = io.TextIOWrapper(io.BytesIO(), encoding, errors="replace")
        self.out = Console(
            file=file, width=width, height=30, force_terminal=True, color_system=None
        )
        self.tree = LiveTree(
            self.out, self.view, threading.Lock(), self.runtime, lambda: self.silent_s
        )

    def change(self, **fields: Any) -> None:
        """Change the run."""
        self.view.run = replace(self.view.run, **fields)

    def _add_task(self, task_id: str, status: TaskStatus, began: datetime) -> None:
        title = "A long title that says what the task is for"
        task = RunTask(
            id=task_id,
            status=status,
            definition=Task(task_id, title=title),
            revision=1,
            attempts=1,
            started_time=began,
        )
        self.view.add_tasks([task])
        counts = self.view.run.counts
        done = counts.completed + (status == COMPLETED)
        self.change(counts=replace(counts, total=counts.total + 1, completed=done))
        self.add_attempt(f"task:{task_id}#1", TASK, LEASED, task_id)

    def add_attempt(
        self,
        execution_id: str,
        kind: StepKind,
        status: ExecutionStatus,
        task_id: str = "",
    ) -> None:
        self.view.add_executions(
            [
                Execution(
                    id=execution_id,
                    task_id=task_id,
                    iteration=1,
                    attempt=1,
                    kind=kind,
                    status=status,
                )
            ]
        )

    def add_log(self, text: str, kind: LogKind = LogKind.LINE, task_id: str = "a") -> None:
        self.tree.said.add(LogEntry(execution_id=f"task:{task_id}#1", text=text, kind=kind))

    def drawn(self) -> str:
        with self.out.capture() as captured:
            self.out.print(self.tree.render())
        return captured.get()


def test_silent_server_is_named_and_clocks_stand_still() -> None:
    screen = Screen({"a": RUNNING})
    before = screen.drawn()
    screen.runtime.advance(60_000)
    screen.silent_s = 60.0
    silent = screen.drawn()
    screen.silent_s = 0.0
    in_touch_again = screen.drawn()

    assert "silent" not in before
    assert "the server has been silent for 1m00s; this is how" in silent
    assert "5.00s" in before
    assert "5.00s" in silent
    assert "silent" not in in_touch_again
    assert "1m05s" in in_touch_again


def test_row_of_a_running_task_ends_with_its_last_log_line() -> None:
    screen = Screen({"a": RUNNING, "b": COMPLETED})
    screen.add_log("reads\npage 7")
    screen.add_log("is over", task_id="b")

    assert "5.00s  reads page 7" in screen.drawn()
    assert "is over" not in screen.drawn()


def test_chunks_of_a_stream_are_put_together() -> None:
    screen = Screen({"a": RUNNING})
    for text in ("The ", "end", "."):
        screen.add_log(text, LogKind.CHUNK)

    assert "The end." in screen.drawn()


def connected(*held: HeldStep) -> ConnectedWorker:
    return ConnectedWorker(worker_id="w", held=held)


def test_row_of_a_running_task_says_how_far_its_heartbeats_say_it_is() -> None:
    screen = Screen({"a": RUNNING}, width=80)
    held = HeldStep(execution_id="task:a#1", progress=Payload(b'{"done": 3}'))
    screen.add_log("page 7")

    screen.tree.holders.take({"task:a#1": "w"}, [connected(held)], screen.runtime.now_us())

    assert '5.00s  {"done": 3} · page 7' in screen.drawn()


def test_steps_whose_worker_is_gone_say_so_until_one_has_them_again() -> None:
    screen = Screen({"a": RUNNING}, width=80)
    screen.add_attempt("reflect:1#1", STEP, LEASED)
    asked_for = {"task:a#1": "w", "reflect:1#1": "w"}
    screen.tree.holders.take(asked_for, [], screen.runtime.now_us())
    screen.runtime.advance(4_000)
    screen.tree.holders.take(asked_for, [], screen.runtime.now_us())

    gone = screen.drawn()
    screen.tree.holders.take(asked_for, [connected()], screen.runtime.now_us())

    assert gone.count("its worker is gone, for 4.00s") == 2
    assert "! a" in gone
    assert "! reflect" in gone
    assert "gone" not in screen.drawn()


def test_row_of_a_step_ends_with_what_it_wrote_last() -> None:
    screen = Screen({"a": COMPLETED}, width=80)
    screen.add_attempt("reflect:1#1", STEP, LEASED)
    screen.tree.said.add(LogEntry(execution_id="reflect:1#1", text="it will do"))

    assert "it will do" in screen.drawn()


def test_bar_is_full_only_after_the_reflection() -> None:
    screen = Screen({"a": COMPLETED})
    screen.add_attempt("reflect:1#1", STEP, LEASED)
    reflecting = screen.drawn()
    screen.add_attempt("reflect:1#1", STEP, DONE)

    assert " 50%" in reflecting
    assert " 100%" in screen.drawn()


@pytest.mark.parametrize("width", [60, 80])
def test_ids_stay_whole_and_titles_give_way(width: int) -> None:
    screen = Screen({LONG_ID: RUNNING}, width=width)
    screen.change(usage=Usage(input_tokens=1_200, cost_micros=1_500))
    screen.add_log("page 7", task_id=LONG_ID)
    drawn = screen.drawn()

    assert f"{LONG_ID}   5.00s  page 7" in drawn
    assert "A long title" not in drawn
    words = " ".join(drawn.split())
    assert "iteration 1 of 5 · 5.00s · 0 of 1 task · 1,200 tokens in, 0 out, cost 0.0015" in words
    assert max(len(line) for line in drawn.splitlines()) <= width


def test_wide_terminal_has_titles() -> None:
    assert "A long title" in Screen({"a": RUNNING}, width=100).drawn()


def test_question_of_a_run_is_shown_above_its_tasks() -> None:
    screen = Screen({"a": TaskStatus.BLOCKED})
    screen.change(blocked_on=BlockedKind.QUESTION)
    for number in range(2):
        screen.view.questions[f"{number}"] = Question(
            id=f"{number}", prompt="May I?", status=QuestionStatus.OPEN
        )

    assert "a person is asked: May I? (and 1 other question) (" in screen.drawn()


def test_ascii_terminal_has_plain_signs() -> None:
    drawn = Screen({"a": RUNNING}, encoding="ascii").drawn()

    assert "  * a" in drawn
    assert "---- 0%" in drawn


def test_state_stays_on_the_screen_when_the_watching_is_left() -> None:
    screen = Screen({"a": RUNNING})
    with screen.out.capture() as captured:
        screen.tree.leave()

    assert "● a" in captured.get()
