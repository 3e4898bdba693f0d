"""The tables and diagrams of the documents agree with the code."""

from __future__ import annotations

import subprocess
import sys

from scripts import diagrams, pictures

from stepwell.core.loop import table


def test_every_drawing_in_the_documents_is_fresh() -> None:
    command = [sys.executable, "-m", "scripts.diagrams", "--check"]
    done = subprocess.run(command, cwd=diagrams.TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_picture_of_the_loop_shows_every_move() -> None:
    picture = pictures.loop()
    for _, why in table.PHASE_MOVES:
        assert f">{why}</text>" in picture
    page = (diagrams.TOP / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert "](pictures/loop.svg)" in page


def test_the_concepts_show_every_table_of_the_loop() -> None:
    page = (diagrams.TOP / "docs" / "concepts.md").read_text(encoding="utf-8")
    for name in ("steps", "runs", "tasks", "executions"):
        assert f"<!-- drawn from core/loop/table.py: begin {name} -->" in page


def test_every_shown_state_is_described() -> None:
    regions = [
        (page.name, found["name"], found["body"])
        for page in diagrams.PAGES
        for found in diagrams._REGION.finditer(page.read_text(encoding="utf-8"))
        if found["source"] in {"core/records/states.py", "core/loop/table.py"}
    ]
    assert regions
    for page, name, body in regions:
        assert "|  |" not in body, f"{page}, {name}: a state without a meaning"
