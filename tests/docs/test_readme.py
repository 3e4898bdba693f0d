"""The README's snippets work when pasted, and `serve` alone keeps its state."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stepwell_client import Task
from tests.docs.pages import PAGES, QUICK_README_AGENT, README_AGENT, TOP, blocks
from tests.docs.shell import Shell, stepwell_commands, stop

README = TOP / "README.md"
_, CLIENT = (block.text for block in blocks(README, "python"))
PRINTED = blocks(README, "text")[0].text
SERVE, WORKER, RUN = (
    command for block in blocks(README, "sh") for command in stepwell_commands(block.text)
)
ENTER = ". ~/stepwell-try/bin/activate\ncd ~/stepwell-try\n"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    assert QUICK_README_AGENT != README_AGENT
    (tmp_path / "agent.py").write_text(QUICK_README_AGENT, encoding="utf-8")
    (tmp_path / "client.py").write_text(CLIENT, encoding="utf-8")
    with Shell(tmp_path) as made:
        yield made


# --- what is pasted --------------------------------------------------------------------------------


def test_the_commands_at_the_top_are_targets_of_the_makefile() -> None:
    first = blocks(README, "sh")[0].text
    targets = re.findall(r"^make ([\w-]+)", first, re.MULTILINE)
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"]
    for target in [*targets, *re.findall(r"`make ([\w-]+)`", README.read_text(encoding="utf-8"))]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_agent_has_twenty_lines_and_the_client_four() -> None:
    agent, _, _ = README_AGENT.partition('if __name__ == "__main__":')
    assert len([line for line in agent.splitlines() if line]) <= 20
    assert len([line for line in CLIENT.splitlines() if line]) == 4


def test_every_terminal_is_entered_and_what_is_installed_is_here() -> None:
    install, *terminals = [block.text for block in blocks(README, "sh")[1:] if "try" in block.text]
    assert [text.startswith(ENTER) for text in terminals] == [True, True, True]
    pip = re.search(r"^pip install (\S+) (\S+)$", install, re.MULTILINE)
    assert pip is not None
    assert all((TOP / path / "pyproject.toml").exists() for path in pip.groups())


def test_killed_file_reads_only_the_second_text_again(shell: Shell) -> None:
    command = next(b.text for b in blocks(README, "sh") if b.text == "python agent.py\n").strip()
    (shell.folder / "agent.py").write_text(README_AGENT, encoding="utf-8")
    killed = shell.start(command)
    shell.until(lambda: "reading: two three" in shell.said(killed), killed)
    stop(killed, signal.SIGKILL)

    (shell.folder / "agent.py").write_text(QUICK_README_AGENT, encoding="utf-8")
    again = shell.run(command)

    assert again.stderr == ""
    assert again.stdout == f"reading: two three\n{PRINTED}"


def test_run_survives_a_kill_of_service_and_worker(shell: Shell) -> None:
    (shell.folder / "agent.py").write_text(README_AGENT, encoding="utf-8")
    server, worker = shell.serve(SERVE), shell.start(WORKER)
    shell.start(RUN)
    shell.until(lambda: "reading: one two two" in shell.said(worker), worker)
    stop(server, signal.SIGKILL)
    stop(worker, signal.SIGKILL)
    (shell.folder / "agent.py").write_text(QUICK_README_AGENT, encoding="utf-8")
    shell.serve(SERVE)
    shell.start(WORKER)
    shell.until(lambda: "succeeded" in shell.run("stepwell ls").stdout.lower())


def test_readme_snippets_work_when_pasted(shell: Shell) -> None:
    server, worker = shell.serve(SERVE), shell.start(WORKER)
    done = shell.run("python client.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED

    done = shell.run(RUN)
    assert done.returncode == 0, done.stderr
    assert PRINTED.strip() in done.stdout
    assert shell.run("stepwell ls").stdout.lower().count("succeeded") == 2

    assert stop(worker, signal.SIGTERM) == 0
    assert stop(server, signal.SIGTERM) == 0
    assert "POWER" in shell.said(server)
    select = "select run_id, task_id, status, attempts from tasks"
    assert f"sqlite3 stepwell.db '{select}'" in README.read_text(encoding="utf-8")
    found = _rows(shell.folder / "stepwell.db", select)
    runs = sorted({str(row[0]) for row in found})
    each = [("count-0", "completed", 1), ("count-1", "completed", 1)]
    assert found == [(run, *row) for run in runs for row in each]
    assert len(runs) == 2


def _rows(path: Path, select: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute(select))


def test_serve_keeps_its_state_by_itself(shell: Shell) -> None:
    server = shell.serve("stepwell serve")
    assert "POWER" in shell.said(server)
    with shell.client() as client:
        run_id = client.start("kept", plan=[Task("one", "quick")]).id
    stop(server, signal.SIGKILL)
    shell.serve("stepwell serve")
    with shell.client() as client:
        assert client.run(run_id).get().goal == "kept"


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
