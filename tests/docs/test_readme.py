"""The README's snippets work when pasted, and its promises about crashes hold."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stepwell_client import SyncClient, Task
from stepwell_client.v1 import types_pb2
from tests.docs.pages import PAGES, TOP, blocks
from tests.docs.shell import WAIT_S, Shell, stepwell_commands, stop

README = TOP / "README.md"
AGENT, CLIENT = (block.text for block in blocks(README, "python"))
PRINTED = blocks(README, "text")[0].text
SERVE, WORKER, RUN = (
    command for block in blocks(README, "sh") for command in stepwell_commands(block.text)
)

# Its steps end when a file is there, so that a test can kill things in the midst of them.
GATED = """
import time
from pathlib import Path
from stepwell_client import Agent

agent = Agent("gated")


@agent.task("quick")
def quick(ctx):
    return "quick"


@agent.task("slow")
def slow(ctx):
    Path("begun").touch()
    while not Path("go").exists():
        ctx.check_cancelled()
        time.sleep(0.01)
    return ctx.attempt
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "client.py").write_text(CLIENT, encoding="utf-8")
    (tmp_path / "gated.py").write_text(GATED, encoding="utf-8")
    with Shell(tmp_path) as made:
        yield made


# --- what is pasted --------------------------------------------------------------------------------


def test_the_two_commands_at_the_top_are_targets_of_the_makefile() -> None:
    first = blocks(README, "sh")[0].text
    targets = re.findall(r"^make (\w+)", first, re.MULTILINE)
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"]
    for target in [*targets, *re.findall(r"`make (\w+)`", README.read_text(encoding="utf-8"))]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_agent_has_twenty_lines_and_the_client_five() -> None:
    assert len([line for line in AGENT.splitlines() if line]) <= 20
    assert len([line for line in CLIENT.splitlines() if line]) == 5


def test_readme_snippets_work_when_pasted(shell: Shell) -> None:
    server = shell.serve(SERVE)
    agent = shell.start("python agent.py")
    done = shell.run("python client.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED

    stop(agent, signal.SIGINT)
    worker = shell.start(WORKER)
    done = shell.run(RUN)
    assert done.returncode == 0, done.stderr
    assert PRINTED.strip() in done.stdout
    assert shell.run("stepwell ls").stdout.lower().count("succeeded") == 2

    assert stop(worker, signal.SIGTERM) == 0
    assert stop(server, signal.SIGTERM) == 0
    assert "POWER" in shell.said(server)
    select = "select task_id, status, attempts from tasks"
    assert f"sqlite3 stepwell.db '{select}'" in README.read_text(encoding="utf-8")
    found = _rows(shell.folder / "stepwell.db", select)
    assert found == 2 * [("count-0", "COMPLETED", 1)] + 2 * [("count-1", "COMPLETED", 1)]


def _rows(path: Path, select: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute(select))


# --- what survives what ----------------------------------------------------------------------------


def _start_gated(shell: Shell, client: SyncClient) -> str:
    """Start a run of two tasks, and return when the first is done and the second in flight."""
    plan = [Task("first", "quick"), Task("second", "slow", depends_on=["first"])]
    run_id = client.start("survive", plan=plan).run.spec.run_id
    shell.until((shell.folder / "begun").exists)
    return run_id


def _finish(shell: Shell, run_id: str) -> dict[str, int]:
    """Let the second task end; return how many attempts each has taken."""
    (shell.folder / "go").touch()
    with shell.client() as client:
        assert client.wait(run_id, WAIT_S).status == types_pb2.RUN_STATUS_SUCCEEDED
        return {entry.task.task_id: entry.task.attempts for entry in client.tasks(run_id)}


def test_steps_in_flight_lose_nothing_when_the_server_is_stopped_and_killed(shell: Shell) -> None:
    server = shell.serve(SERVE)
    shell.start("stepwell worker gated:agent")
    with shell.client() as client:
        run_id = _start_gated(shell, client)
    for number in (signal.SIGTERM, signal.SIGKILL):
        stop(server, number)
        server = shell.serve(SERVE)
    assert _finish(shell, run_id) == {"first": 1, "second": 1}


def test_killed_workers_steps_run_again_and_a_watch_misses_nothing(
    shell: Shell,
) -> None:
    shell.serve(SERVE)
    worker = shell.start("stepwell worker gated:agent")
    with shell.client() as client:
        run_id = _start_gated(shell, client)
        with client.watch(run_id) as watch:
            seen = [next(iter(watch)).number]
    stop(worker, signal.SIGKILL)
    shell.start("stepwell worker gated:agent")
    assert _finish(shell, run_id) == {"first": 1, "second": 2}
    with shell.client() as client:
        seen += [event.number for event in client.watch(run_id, seen[-1])]
        assert seen == list(range(1, client.get(run_id).last_event + 1))


def test_serve_keeps_its_state_by_itself(shell: Shell) -> None:
    server = shell.serve("stepwell serve")
    assert "POWER" in shell.said(server)
    with shell.client() as client:
        run_id = client.start("kept", plan=[Task("one", "quick")]).run.spec.run_id
    stop(server, signal.SIGKILL)
    shell.serve("stepwell serve")
    with shell.client() as client:
        assert client.get(run_id).spec.goal == "kept"


# --- all pages -------------------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    """Return what the headings of a page are linked by."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in _anchors(there), f"{page.name} links to {link}"
