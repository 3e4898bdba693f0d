"""The commands of the pages in docs/how-to do what the pages say."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import QUICK_README_AGENT, TOP, blocks
from tests.docs.shell import Shell, stepwell_commands

PAGES = TOP / "docs" / "how-to"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "agent.py").write_text(QUICK_README_AGENT, encoding="utf-8")
    with Shell(tmp_path) as made:
        yield made


def script(name: str) -> str:
    """Return the one block of a page that is typed into a shell."""
    (block,) = blocks(PAGES / f"{name}.md", "sh")[:1]
    return shlex.join(["sh", "-c", block.text])


def test_cron_line_that_runs_twice_starts_one_run(shell: Shell) -> None:
    shell.serve("stepwell serve --store memory://")
    first, again = (shell.run(script("cron")) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    with shell.client() as client:
        assert len(list(client.runs())) == 1


def test_line_of_the_crontab_is_that_of_the_shell(shell: Shell) -> None:
    (typed,), (crontab,) = blocks(PAGES / "cron.md", "sh"), blocks(PAGES / "cron.md", "text")
    assert crontab.text.removeprefix("0 6 * * * ").replace("\\%", "%") == typed.text


def test_script_for_ci_ends_with_a_run_that_succeeded(shell: Shell) -> None:
    done = shell.run(script("run-in-ci"))
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "the commonest word: two" in done.stdout


def test_commands_of_an_upgrade_work(shell: Shell) -> None:
    typed = [one.text for one in blocks(PAGES / "upgrade.md", "sh")]
    worker, run, *migrate = stepwell_commands("".join(typed))
    for command in migrate:
        done = shell.run(command)
        assert done.returncode == 0, (command, done.stderr)
    shell.serve("stepwell serve --store sqlite:///stepwell.db")
    shell.start(worker)
    started = shell.run(run.replace("--detach", """--input '["one"]'"""))
    assert started.returncode == 0, (started.stdout, started.stderr)
