"""The demo from end to end on a small tree, and the check of its history that it ends with."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from examples.survey.agent import Request, Survey, agent
from examples.survey.history import History
from stepwell.embedded import Orchestrator
from stepwell_client import EventType, ExecutionStatus, StepKind
from stepwell_client.toolkit import to_wire
from stepwell_client.v1 import types_pb2
from tests.unit.house.source import TOP, write_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {f"part{n}/m{n}.py": f"def f{n}():\n    return {n}\n" for n in range(5)}
    long = "def long():\n" + "    x = 1\n" * 80
    return write_tree(tmp_path / "a tree, 'odd'", files | {"long.py": long, "bad.py": "def f(:"})


def demo(directory: Path, state: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end; its output is one text."""
    program = [sys.executable, "-m", "examples.survey.demo"]
    return subprocess.run(
        [*program, *options, f"--state={state}", str(directory)],
        cwd=TOP,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        # What the caller has set for a server of his own must not reach the demo's.
        env=os.environ | {"STEPWELL_TARGET": "127.0.0.1:1", "STEPWELL_GRPC__PORT": "none"},
        check=False,
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_demo_survives_both_kills(tree: Path, tmp_path: Path) -> None:
    done = demo(tree, tmp_path / "state", "--pace=0.4")
    said = done.stdout

    assert done.returncode == 0, said
    killed = re.findall(r"kill -9 \d+: the (\w+) is dead, after event (\d+)", said)
    assert [program for program, _ in killed] == ["server", "worker"], said
    assert re.search(r"\d+ tasks completed, each once; none was started again", said), said
    pids = {int(pid) for pid in re.findall(r"pid (\d+)", said)}
    assert len(pids) == 4
    assert not [pid for pid in pids if alive(pid)]

    [state] = (tmp_path / "state").iterdir()
    report = (state / "report.md").read_text(encoding="utf-8")
    assert "| bad.py:1 | doesn't parse | invalid syntax: `def f(:` |" in report
    assert "| long.py:1 | long, 81 lines |" in report
    with closing(sqlite3.connect(f"{(state / 'survey.db').as_uri()}?mode=ro", uri=True)) as rows:
        (in_flight,) = rows.execute(
            "SELECT count(*) FROM events AS leased WHERE type = 'EXECUTION_LEASED' AND number <= ?1"
            " AND NOT EXISTS (SELECT * FROM events AS done WHERE done.number <= ?1 AND"
            " done.execution_id = leased.execution_id AND done.number > leased.number)",
            (int(killed[0][1]),),
        ).fetchone()
        statuses = {status for (status,) in rows.execute("SELECT status FROM tasks")}
    assert in_flight >= 1
    assert statuses == {"COMPLETED"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "is not there"),
        ("file", "is not a directory"),
        ("empty", "there are no files to survey"),
    ],
)
def test_unusable_folder_is_refused_at_once(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()

    done = demo(tmp_path / name, tmp_path / "state")

    assert done.returncode == 1
    assert done.stdout.startswith("error: ")
    assert words in " ".join(done.stdout.split())
    assert not (tmp_path / "state").exists()


async def test_the_agent_takes_a_closer_look_in_a_second_iteration(
    tree: Path, tmp_path: Path
) -> None:
    request = Request(str(tree), str(tmp_path / "out" / "report.md"))

    result = await Orchestrator("survey", agent, input=request).run()

    assert result.run.iteration == 2
    survey = result.decode(Survey)
    assert (survey.files, survey.functions) == (7, 6)
    page = Path(survey.report).read_text(encoding="utf-8")  # noqa: ASYNC240 - nothing else runs
    assert page == survey.markdown


# The proof.


def event(number: int, execution_id: str, kind: EventType, status: int) -> types_pb2.Event:
    change = types_pb2.ExecutionChange(
        execution_id=execution_id,
        kind=to_wire(StepKind.TASK),
        task_id="a",
        status=to_wire(status),
        worker_id="w",
    )
    return types_pb2.Event(number=number, type=to_wire(kind), task_id="a", executions=[change])


def leased(number: int, execution_id: str) -> types_pb2.Event:
    return event(number, execution_id, EventType.EXECUTION_LEASED, ExecutionStatus.LEASED)


def completed(number: int, execution_id: str) -> types_pb2.Event:
    return event(number, execution_id, EventType.TASK_COMPLETED, ExecutionStatus.COMPLETED)


def history_of(*events: types_pb2.Event) -> History:
    history = History()
    for each in events:
        history.add(each)
    return history


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([leased(1, "x"), completed(2, "x"), leased(3, "y")], "leased again by event 3"),
        ([leased(1, "x"), completed(2, "x"), completed(3, "x")], "by each of the events"),
        ([leased(1, "x"), completed(3, "x")], "event 3 came out of order"),
        ([leased(1, "x"), leased(1, "x")], "event 1 came out of order"),
    ],
)
def test_a_broken_history_is_caught(events: list[types_pb2.Event], words: str) -> None:
    assert words in " ".join(history_of(*events).violations())
