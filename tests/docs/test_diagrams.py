"""The tables and diagrams of the documents agree with the code."""

from __future__ import annotations

import subprocess
import sys

from scripts import diagrams

from stepwell.core.loop import table


def test_every_drawing_in_the_documents_is_fresh() -> None:
    command = [sys.executable, "scripts/diagrams.py", "--check"]
    done = subprocess.run(command, cwd=diagrams.TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_region_that_is_opened_is_closed() -> None:
    for page in diagrams.PAGES:
        text = page.read_text(encoding="utf-8")
        begun = text.count("<!-- drawn from ")
        assert begun == 2 * len(diagrams._REGION.findall(text)), page.name


def test_the_concepts_show_every_table_of_the_loop() -> None:
    page = (diagrams.TOP / "docs" / "concepts.md").read_text(encoding="utf-8")
    for name in ("phases", "steps", "runs", "tasks", "executions"):
        assert f"<!-- drawn from core/table.py: begin {name} -->" in page


def test_the_diagram_has_every_move_and_no_other() -> None:
    drawn = diagrams.phases()
    arrows = [line.strip() for line in drawn.splitlines() if "-->" in line and "[*]" not in line]
    assert arrows == [f"{a} --> {b}: {why}" for (a, why), b in table.PHASE_MOVES.items()]


def test_every_shown_state_is_described() -> None:
    regions = [
        (page.name, found["name"], found["body"])
        for page in diagrams.PAGES
        for found in diagrams._REGION.finditer(page.read_text(encoding="utf-8"))
        if found["source"] in {"core/states.py", "core/table.py"}
    ]
    assert regions
    for page, name, body in regions:
        assert "|  |" not in body, f"{page}, {name}: a state without a meaning"


def test_a_stale_region_is_drawn_anew_and_the_rest_stays() -> None:
    page = (
        "before\n<!-- drawn from core/states.py: begin Durability -->\nold\n"
        "<!-- drawn from core/states.py: end Durability -->\nafter\n"
    )
    fresh = diagrams.drawn(page)
    assert "old" not in fresh
    assert "| `POWER` |" in fresh
    assert fresh.startswith("before\n")
    assert fresh.endswith("\nafter\n")
    assert diagrams.drawn(fresh) == fresh
