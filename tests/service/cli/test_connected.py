"""`stepwell workers` and `stepwell queues` against a real server and a real worker."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.service.cli.world import WAIT_S, Terminal, end, plan_file, read_until


def test_connected_worker_and_its_queue_are_listed(terminal: Terminal) -> None:
    (worker,) = terminal("workers", "--queue", "default", "--json").json["workers"]
    (queue,) = [
        one for one in terminal("queues", "--json").json["queues"] if one["name"] == "default"
    ]

    assert worker["queues"] == ["default"]
    assert worker["connected_time"]
    assert queue["workers"] == 1
    assert worker["worker_id"] in terminal("workers").out
    assert "default" in terminal("queues").out


def test_queue_without_workers_is_said_to_have_none(terminal: Terminal) -> None:
    answer = terminal("workers", "--queue", "nobody-serves-this")

    assert (answer.code, answer.out) == (0, "")
    assert "stepwell worker" in answer.err


def test_schema_of_the_input_is_printed_as_the_queues_worker_gives_it(terminal: Terminal) -> None:
    answer = terminal("run", "--queue", "default", "--input-schema")
    assert (answer.code, answer.json) == (0, {"type": "object", "title": "What to do"})

    missing = terminal("run", "--pipeline", "nobody-serves-this", "--input-schema")
    assert missing.code != 0
    assert "no worker of queue nobody-serves-this" in missing.err


STUCK = """
import pathlib, time
from stepwell_client import Agent

agent = Agent("stuck", queues=["stuck"])

@agent.task("block")
def block(ctx, go: str):
    while not pathlib.Path(go).exists():
        time.sleep(0.01)
"""


def test_worker_is_stuck_while_a_timed_out_function_holds_its_place(
    terminal: Terminal,
) -> None:
    go = terminal.folder / "go"
    (terminal.folder / "stuck_agent.py").write_text(STUCK)
    task = {"id": "a", "type": "block", "input": str(go), "retry": {"maxAttempts": "1"}}
    plan = plan_file(terminal.folder, [{**task, "attemptTimeout": "0.1s"}], "stuck.json")
    worker = terminal.spawn("worker", "stuck_agent:agent", "--id", "w-stuck", "-c", "1")
    read_until(worker.stderr, "serves replica")
    assert terminal("run", "-q", "stuck", "--plan", plan).code == 1

    def state() -> str:
        (line,) = terminal("workers", "--queue", "stuck").out.splitlines()[1:]
        return line.split()[1]

    wait_for(lambda: state() == "stuck")
    go.touch()
    wait_for(lambda: state() == "idle")
    end(worker)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
