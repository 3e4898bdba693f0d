"""Each line of docs/troubleshooting.md that stands for a terminal's is what the terminal prints."""

from __future__ import annotations

import re
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import TOP, blocks
from tests.docs.shell import Shell, stop

PAGE = TOP / "docs" / "troubleshooting.md"
SHOWN = "\n".join(block.text for kind in ("text", "console") for block in blocks(PAGE, kind))
AGENT = """
from stepwell_client import Agent, TaskContext

agent = Agent("broken")


@agent.task("divide")
def divide(ctx: TaskContext, by: int) -> float:
    return 1 / by
"""
PLAN = '[{"id": "a", "type": "divide", "input": 0, "retry": {"max_attempts": 1}}]'


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "broken.py").write_text(AGENT.lstrip(), encoding="utf-8")
    (tmp_path / "plan.json").write_text(PLAN, encoding="utf-8")
    with Shell(tmp_path) as made:
        made.environment["COLUMNS"] = "200"
        yield made


def known(line: str) -> str:
    """Return a line without what differs from one machine and moment to the next."""
    line = re.sub(r"unix:\S+?/s\.sock|127\.0\.0\.1:\d+", "ADDRESS", line)
    line = re.sub(r"(/[\w.-]+)+/(?=broken\.py|stepwell\.db)", "", line)
    line = re.sub(r" in /\S+ or among", " in FOLDER or among", line)
    return re.sub(r"@\S+|pid \d+|\d+\.\d+s", "#", line).strip()


def assert_shown(printed: str, beginning: str, lines: int = 1) -> None:
    """Require that the page shows so many lines of what was printed, from one that begins so."""
    said = [known(line) for line in printed.splitlines()]
    start = next(number for number, line in enumerate(said) if line.startswith(beginning))
    shown = {known(line) for line in SHOWN.splitlines()}
    for line in said[start : start + lines]:
        assert line in shown


def test_what_is_said_of_a_waiting_run_and_of_a_failed_one(shell: Shell) -> None:
    command = next(line for line in SHOWN.splitlines() if line.startswith("$ stepwell run"))
    shell.serve("stepwell serve --store sqlite:///stepwell.db")
    follower = shell.start(command.removeprefix("$ "))
    shell.until(lambda: "no worker serves queue" in shell.said(follower), follower)
    assert_shown(shell.said(follower), "no worker serves queue")

    worker = shell.start("stepwell worker broken:agent --id w1")
    shell.until(lambda: follower.poll() is not None)
    run = shell.run("stepwell ls").stdout.splitlines()[1].split()[0]
    failed = shell.run(f"stepwell show {run} --failures").stdout.replace(" w1 ", " broken@vm ")
    assert_shown(failed, "attempt 1", lines=7)

    shell.start("stepwell worker broken:agent --id w1")
    shell.until(lambda: worker.poll() is not None)
    assert_shown(shell.said(worker), "error: a newer process")


def test_what_is_said_of_a_server_that_is_not_there_or_knows_another_token(shell: Shell) -> None:
    assert_shown(shell.run("stepwell ls").stderr, "error: no server answers")

    shell.serve("stepwell serve --store memory://")
    other = shell.folder / "other.token"
    other.write_text("0123456789abcdef", encoding="utf-8")
    other.chmod(0o600)
    assert_shown(shell.run("stepwell ls --token-file other.token").stderr, "error: ADDRESS wants")


def test_what_is_said_of_a_store_that_is_refused(shell: Shell) -> None:
    server = shell.serve("stepwell serve --store sqlite:///stepwell.db")
    second = f"env STEPWELL_GRPC__SOCKET={shell.target[5:]}.two stepwell serve"
    for url in ("sqlite:///stepwell.db", "sqlite3:///s.db", "postgresql://localhost:1/x"):
        done = shell.run(f"{second} --store {url}")
        assert done.returncode != 0
        assert_shown(done.stderr, "error: ")
    assert stop(server, signal.SIGTERM) == 0


def test_what_is_said_of_a_taken_port_a_setting_and_an_agent(shell: Shell) -> None:
    del shell.environment["STEPWELL_GRPC__SOCKET"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = shell.run(f"stepwell serve --store memory:// --port {port}")
    assert_shown(refused.stderr, "error: ADDRESS can't be bound")
    assert_shown(shell.run("stepwell worker nothere:agent").stderr, "error: there is no module")
    assert_shown(shell.run("stepwell worker broken:other").stderr, "error: module broken")
    shell.environment["STEPWELL_GRPC__PORTS"] = "1"
    assert_shown(shell.run(shlex.join(["stepwell", "serve"])).stderr, "error: grpc.ports")
