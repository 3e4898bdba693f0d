"""`serve`, `store` and `worker` as processes: what they say, and how they end."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.cli.serving import loop_factory as serving_loop
from tests.service.cli.world import Terminal, end, plan_file, read_until, serving, working

pytestmark = pytest.mark.timeout(110)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_the_server_and_it_exits_with_0(tmp_path: Path, number: int) -> None:
    type_in = Terminal(tmp_path)
    server = type_in.spawn("serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/a.db")
    read_until(server.stdout, "listens on 127.0.0.1:")
    read_until(server.stdout, f"store    sqlite:///{tmp_path}/a.db")
    read_until(server.stdout, "durable  POWER: what is acknowledged survives a power cut")
    read_until(server.stdout, f"token    {tmp_path}/state/stepwell/token")
    answer = end(server, number)

    assert answer.code == 0
    assert "draining" in answer.err
    assert "stopped" in answer.out


def test_a_second_signal_quits_at_once(tmp_path: Path) -> None:
    type_in = Terminal(tmp_path)
    with serving(type_in) as address:
        type_in.variables["STEPWELL_TARGET"] = address
        with working(type_in, "--drain", "60") as worker:
            plan = plan_file(tmp_path, [{"id": "long", "type": "slow"}])
            run = type_in.spawn("run", "--plan", plan)
            read_until(run.stdout, "task long +started")
            worker.send_signal(signal.SIGTERM)
            read_until(worker.stderr, "again quits at once")
            assert end(worker).code == 130
            end(run, signal.SIGINT)


def test_logs_are_json_where_that_is_asked_for(tmp_path: Path) -> None:
    type_in = Terminal(tmp_path)
    server = type_in.spawn("serve", "--port", "0", "--store", "memory://", "--log-format", "json")
    read_until(server.stdout, "listens on")
    read_until(server.stdout, "durable  VOLATILE")
    answer = end(server)

    entries = [json.loads(line) for line in answer.err.splitlines() if line.startswith("{")]
    assert {"minted a token", "serving", "draining", "stopped"} <= {one["event"] for one in entries}


def test_a_socket_serves_as_a_port_does(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    type_in = Terminal(tmp_path)
    server = type_in.spawn("serve", "--socket", str(folder / "s"), "--metrics-port", "0")
    address = read_until(server.stdout, r"listens on (\S+)")[1]
    try:
        assert address == f"unix:{folder}/s"
        assert type_in("health", "--target", address).code == 0
        assert type_in("ls", "--target", address).code == 0
        read_until(server.stdout, r"metrics  http://127.0.0.1:\d+/metrics")
    finally:
        end(server)


def test_a_store_apart_serves_an_executor(tmp_path: Path) -> None:
    type_in = Terminal(tmp_path)
    store = type_in.spawn("store", "--port", "0", "--driver", f"sqlite:///{tmp_path}/b.db")
    try:
        at = read_until(store.stdout, r"stepwell store listens on (\S+)")[1]
        with serving(type_in, store=f"grpc://{at}") as address:
            type_in.variables["STEPWELL_TARGET"] = address
            with working(type_in):
                assert type_in("run", "--goal", "far").code == 0
    finally:
        assert end(store).code == 0
    with sqlite3.connect(tmp_path / "b.db") as database:
        assert database.execute("select status from runs").fetchall() == [("SUCCEEDED",)]
    database.close()


def test_a_second_server_on_the_file_is_refused_in_one_line(tmp_path: Path) -> None:
    type_in = Terminal(tmp_path)
    with serving(type_in):
        answer = type_in("serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/runs.db")

    assert answer.code == 2
    assert answer.err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in answer.err


def test_a_worker_drains_and_exits_with_0(tmp_path: Path) -> None:
    type_in = Terminal(tmp_path)
    with serving(type_in) as address:
        type_in.variables["STEPWELL_TARGET"] = address
        with working(type_in, "--queue", "one", "--queue", "two", "--id", "w1") as worker:
            answer = end(worker)

    assert answer.code == 0
    assert "draining" in answer.err


def test_a_worker_without_a_valid_token_ends_with_5(tmp_path: Path) -> None:
    type_in = Terminal(tmp_path)
    (tmp_path / "wrong").write_text("0123456789abcdef0123456789abcdef")
    with serving(type_in) as address:
        type_in.variables["STEPWELL_TARGET"] = address
        with working(type_in):
            pass
        answer = type_in("worker", "cli_agent:agent", "--token-file", "wrong")

    assert answer.code == 5
    assert "wants a token" in answer.err


def test_a_run_survives_kill_9_of_the_server_while_it_is_followed(tmp_path: Path) -> None:
    type_in = Terminal(tmp_path)
    url = f"sqlite:///{tmp_path}/runs.db"
    server = type_in.spawn("serve", "--port", "0", "--store", url)
    address = read_until(server.stdout, r"listens on (\S+)")[1]
    type_in.variables["STEPWELL_TARGET"] = address
    following = type_in.spawn("run", "--goal", "survives")
    read_until(following.stdout, "started: survives")
    server.kill()
    server.communicate()

    port = address.rpartition(":")[2]
    again = type_in.spawn("serve", "--port", port, "--store", url)
    try:
        read_until(again.stdout, "listens on")
        with working(type_in):
            out, err = following.communicate(timeout=60)
    finally:
        end(again)

    assert following.returncode == 0, err
    assert "started: survives" not in out  # It was told before, and nothing is told twice.
    assert out.endswith("survives: a, b\n")


def test_a_terminal_shows_the_tree(tmp_path: Path) -> None:
    type_in = Terminal(tmp_path)
    with serving(type_in) as address:
        type_in.variables["STEPWELL_TARGET"] = address
        with working(type_in):
            said = in_a_terminal(type_in, "run", "--goal", "twice")

    assert "SUCCEEDED" in said
    assert "iteration 2" in said
    assert "✓" in said
    assert "# Report" in said


def in_a_terminal(type_in: Terminal, *arguments: str) -> str:
    """Run a command on a pseudo-terminal; returns all that it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "stepwell", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=type_in.folder,
        env={**type_in.variables, "TERM": "xterm", "COLUMNS": "100", "PYTHONUTF8": "1"},
    )
    os.close(theirs)
    said = bytearray()
    try:
        while data := os.read(ours, 65_536):
            said += data
    except OSError:
        pass  # The other side is closed.
    os.close(ours)
    assert process.wait() == 0, said
    return said.decode("utf-8", "replace")


def test_the_server_s_loop_is_uvloop_s_where_that_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uvloop = pytest.importorskip("uvloop")
    assert serving_loop() is uvloop.new_event_loop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert serving_loop() is None
