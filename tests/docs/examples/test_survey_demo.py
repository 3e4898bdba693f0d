"""The demo from end to end on a small tree."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from examples.survey.agent import Request, Survey, agent
from stepwell.embedded import Orchestrator
from tests.docs.examples.play import alive, play


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "a tree, 'odd'"
    files = {f"part{n}/m{n}.py": f"def f{n}():\n    return {n}\n" for n in range(5)}
    files |= {"long.py": "def long():\n" + "    x = 1\n" * 80, "bad.py": "def f(:"}
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text, encoding="utf-8")
    return top


def test_the_demo_survives_both_kills(tree: Path, tmp_path: Path) -> None:
    # What is in flight when the demo decides to kill must be so still when it kills, however late it is told.
    done = play("survey", "--pace=1.5", f"--state={tmp_path / 'state'}", str(tree))
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
    assert statuses == {"completed"}


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
