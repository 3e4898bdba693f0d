"""Tables of workers and queues: what stays on a narrow terminal, and the words for a worker's state."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console
from rich.table import Table

from stepwell.cli.commands.connected import queue_rows, worker_rows
from stepwell.cli.view.terminal import put_rows
from stepwell_client import ConnectedWorker, StepKind
from stepwell_client.records import Queue, TaskPattern

NOW_US = 1_700_000_000_000_000
KINDS = tuple(kind for kind in StepKind if kind)
WORKER = ConnectedWorker(
    worker_id="a-host-of-some-length",
    instance_id="one",
    replica_id="a93875fe-509a-c2fa-e0e0-939d3ec71c4d",
    subject="build-7",
    queues=("reports",),
    kinds=KINDS,
    version="2.1",
    connected_time=datetime.fromtimestamp(NOW_US // 1_000_000 - 125, UTC),
    free_slots=3,
    held_count=1,
)


def lines(rows: Table, width: int, *spare: str) -> list[str]:
    """Return the lines of a table of this width."""
    out = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    put_rows(rows, *spare, out=out)
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def test_workers_at_60_columns_keep_id_state_and_queues() -> None:
    header, row = lines(
        worker_rows([WORKER], NOW_US), 60, "BY", "REPLICA", "VERSION", "SINCE", "FREE"
    )

    assert header.split()[:3] == ["WORKER", "STATE", "HOLDS"]
    assert row.startswith("a-host-of-some-length  busy")
    assert row.endswith("reports")


def test_workers_on_a_wide_terminal_show_all() -> None:
    _, row = lines(worker_rows([WORKER], NOW_US), 120)

    words = ["a-host-of-some-length", "busy", "1", "3", "2m", "ago", "2.1"]
    assert row.split()[:7] == words
    assert row.split()[8:] == ["build-7", "reports"]


@pytest.mark.parametrize(
    ("worker", "state"),
    [
        (ConnectedWorker(free_slots=1), "idle"),
        (ConnectedWorker(), "stuck"),
        (ConnectedWorker(held_count=1), "busy"),
        (ConnectedWorker(held_count=1, lapses=1), "silent"),
        (ConnectedWorker(lapses=1, draining=True), "draining"),
    ],
)
def test_state_of_a_worker_says_what_matters_most(worker: ConnectedWorker, state: str) -> None:
    worker = replace(worker, worker_id="w", queues=("q",), kinds=KINDS)

    _, row = lines(worker_rows([worker], NOW_US), 120)

    assert row.split()[1] == state


def test_worker_that_does_only_some_steps_shows_which() -> None:
    tasks = (TaskPattern(type="write", role="editor"), TaskPattern(type="*", role="*"))
    kinds = (StepKind.TASK, StepKind.PLAN)
    worker = ConnectedWorker(worker_id="w", queues=("q", "r"), kinds=kinds, tasks=tasks)

    _, row = lines(worker_rows([worker], NOW_US), 120)

    assert row.endswith("q, r; task, plan; tasks write as editor, *")


def test_queues_fit_60_columns() -> None:
    found = [
        Queue(
            name="reports",
            limit=8,
            in_use=7,
            waiting_runs=12,
            waiting_since_time=datetime.fromtimestamp(NOW_US // 1_000_000 - 300, UTC),
            workers=2,
        ),
        Queue(name="default", workers=1),
    ]

    header, first, second = lines(queue_rows(found, NOW_US), 60, "LIMIT", "IN USE")

    assert header.split("  ")[0] == "QUEUE"
    assert first.split() == ["reports", "2", "7", "8", "12", "5m", "ago"]
    assert second.split() == ["default", "1", "0", "-", "0"]
