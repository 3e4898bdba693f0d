"""The lines of docs/json.md, run by a shell with jq, on a real server and the README's agent."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import QUICK_README_AGENT, TOP, blocks
from tests.docs.shell import WAIT_S, Shell
from tests.support.backends.required import missing

PAGE = TOP / "docs" / "json.md"
START, RESULT, TASKS, EVENTS, FAILED, ERROR = (block.text for block in blocks(PAGE, "sh"))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    if shutil.which("jq") is None:
        missing("jq", "jq is not installed")
    (tmp_path / "agent.py").write_text(QUICK_README_AGENT, encoding="utf-8")
    with Shell(tmp_path) as made:
        made.serve("stepwell serve --store memory://")
        made.start("stepwell worker agent:agent")
        yield made


def test_lines_with_jq_print_what_the_page_says(shell: Shell) -> None:
    def lines(*scripts: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-ec", "\n".join(scripts)],
            cwd=shell.folder,
            env=shell.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    (run_id,) = lines(START, "echo $RUN")
    known = f"RUN={run_id}"

    assert lines(known, RESULT) == ["the commonest word: two", "RUN_STATUS_SUCCEEDED", "1"]
    assert [json.loads(line) for line in lines(known, TASKS)] == [["count-0", "one two two", 1]]
    counted = {name: number for number, name in map(str.split, lines(known, EVENTS))}
    assert counted["EVENT_TYPE_TASK_COMPLETED"] == "1"
    assert counted["EVENT_TYPE_RUN_SUCCEEDED"] == "1"
    assert lines(FAILED) == []
    assert lines(ERROR) == ["USAGE"]


def test_error_of_the_page_has_the_fields_of_errors() -> None:
    from stepwell.cli.exits import Exit
    from stepwell_client.errors import RunNotFound

    (block,) = blocks(PAGE, "json")
    shown = json.loads(block.text)["error"]

    assert shown["reason"] == RunNotFound.reason
    assert shown["exit_code"] == Exit.USAGE
    assert set(shown) == {"reason", "message", "exit_code"}
