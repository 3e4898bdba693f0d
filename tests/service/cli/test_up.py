"""`up`: the service and a worker in one terminal, from its start to the Ctrl-C that ends both."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from stepwell.cli.commands.up import has_desktop
from stepwell.cli.process.supervisor import keep_running
from stepwell_testkit.runtime import ManualRuntime
from tests.service.cli.world import Terminal, end, post, read_until

AGENT = """
import os
import time
from pathlib import Path

from stepwell_client import Agent, Task

agent = Agent("up")


@agent.plan
def plan(ctx):
    return [Task("quick", "quick"), Task("held", "held", depends_on=["quick"])]


@agent.task("quick")
def quick(ctx):
    return os.getpid()


@agent.task("held")
def held(ctx):
    print(f"held by {os.getpid()}", flush=True)
    while not Path("go").exists():
        time.sleep(0.01)
    return os.getpid()
"""
LISTENS = r"listens on (\S+)"
HELD = r"held by (\d+)"


@pytest.fixture
def folder(tmp_path: Path) -> Terminal:
    (tmp_path / "up_agent.py").write_text(AGENT)
    return Terminal(tmp_path)


def test_killed_worker_is_started_again_and_its_run_goes_on(folder: Terminal) -> None:
    process = folder.spawn("up", "up_agent:agent", "--port", "0")
    folder.variables["STEPWELL_TARGET"] = read_until(process.stdout, LISTENS)[1]
    started = folder("run", "--detach", "--goal", "go on")
    run = started.out.strip()
    killed = int(read_until(process.stdout, HELD)[1])
    os.kill(killed, signal.SIGKILL)
    read_until(process.stderr, "the worker was killed by SIGKILL; it is started again in 1 s")
    (folder.folder / "go").touch()
    followed = folder("watch", run)
    results = json.loads(folder("show", run, "--result").out)
    answer = end(process, signal.SIGINT)

    assert (started.code, followed.code, answer.code) == (0, 0, 0), (started, followed, answer)
    assert results["quick"] == killed
    assert results["held"] != killed
    order = ["drains: 0 steps in flight", "draining; Ctrl-C again quits at once"]
    assert [text for text in order if text in answer.err] == order, answer.err
    assert answer.err.index(order[0]) < answer.err.index(order[1])
    assert answer.out.endswith("stopped\n")
    assert (folder.folder / ".stepwell" / "stepwell.db").is_file()
    assert (folder.folder / ".stepwell" / ".gitignore").read_text() == "*\n"


def test_printed_link_logs_in_to_the_console(folder: Terminal) -> None:
    process = folder.spawn("up", "up_agent:agent", "--port", "0")
    link = read_until(process.stdout, r"once: (\S+)/#code=(\S+)")
    session = post(link[1], "/session", code=link[2])
    answer = end(process, signal.SIGINT)

    assert session["tenant"] == "default"
    assert "made a key, by which the console knows its logins" in answer.err
    assert "opens in the browser" not in answer.out


@pytest.mark.parametrize(
    ("changed", "is_one"),
    [
        ({}, True),
        ({"CI": "true"}, False),
        ({"STEPWELL_NO_OPEN": "1"}, False),
        ({"PYTEST_CURRENT_TEST": "x"}, False),
        ({"DISPLAY": ""}, False),
    ],
)
def test_a_browser_is_opened_only_on_a_desktop(
    changed: dict[str, str], is_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "STEPWELL_NO_OPEN", "PYTEST_CURRENT_TEST", "BROWSER", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"DISPLAY": ":0", **changed}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert has_desktop() is is_one


def test_taken_port_is_replaced_and_the_new_one_printed(folder: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = folder.spawn("up", "up_agent:agent", "--port", str(port))
        printed = read_until(process.stderr, rf"port {port} is taken, .*STEPWELL_TARGET=(\S+)")[1]
        address = read_until(process.stdout, LISTENS)[1]
        ready = folder("health", "--target", address)
        end(process)

    assert (ready.code, printed) == (0, address)


def test_second_one_in_a_folder_says_only_that_the_store_is_held(folder: Terminal) -> None:
    process = folder.spawn("up", "up_agent:agent", "--port", "0")
    port = read_until(process.stdout, LISTENS)[1].rpartition(":")[2]
    second = folder.apart("up", "up_agent:agent", "--port", port)
    end(process)

    assert second.code == 2
    assert second.out == ""
    assert len(second.err.splitlines()) == 1
    assert "is held by another process" in second.err


def test_module_that_is_not_there_ends_it_with_one_error(folder: Terminal) -> None:
    answer = folder.apart("up", "nowhere:agent", "--port", "0")

    assert answer.code == 2
    assert answer.err.count("error: there is no module 'nowhere'") == 1
    assert "started again" not in answer.err


def test_worker_ends_when_what_started_it_is_killed(folder: Terminal) -> None:
    process = folder.spawn("up", "up_agent:agent", "--port", "0", "--drain", "0")
    folder.variables["STEPWELL_TARGET"] = read_until(process.stdout, LISTENS)[1]
    folder("run", "--detach", "--goal", "alone")
    read_until(process.stdout, HELD)
    process.kill()

    # The worker has the other end of both pipes: they end with it.
    out, err = process.communicate(timeout=60)
    assert "draining, 0 s at the most" in err, (out, err)


def test_worker_that_ends_again_and_again_is_started_ever_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = tmp_path / "starts"
    script = f"open({str(starts)!r}, 'a').write('x'); raise SystemExit(7)"

    async def play() -> int:
        runtime, stop = ManualRuntime(), asyncio.Event()
        command = [sys.executable, "-c", script]
        supervising = asyncio.ensure_future(keep_running(command, runtime, stop, drain_seconds=1.0))
        for number, pause in enumerate((1, 2, 4, 8, 16, 30, 30), start=1):
            wanted = f"exit code 7; it is started again in {pause} s\n"
            said = ""
            while wanted not in said:
                await asyncio.sleep(0.01)
                said += capsys.readouterr().err
            assert starts.read_text() == number * "x"
            runtime.advance(pause * 1_000)
        stop.set()
        return await supervising

    assert asyncio.run(play()) == 0
