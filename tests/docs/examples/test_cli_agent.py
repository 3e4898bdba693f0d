"""The program of the command-line agent's example: it goes on with its own conversations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.unit.house.source import TOP

TEXT = "\n\n".join(
    f"Paragraph number {n} speaks of elephants, elephants and tea." for n in range(12)
)


def notetaker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.cli_agent.notetaker", *arguments],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_program_goes_on_where_its_conversation_was_cut(tmp_path: Path) -> None:
    text, home = tmp_path / "text.md", tmp_path / "home"
    text.write_text(TEXT)
    whole = [
        json.loads(line) for line in notetaker(str(text), "--home", str(home)).stdout.splitlines()
    ]
    (file,) = home.iterdir()
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:3]) + lines[3][:5])
    again = notetaker(str(text), "--home", str(home), "--resume", file.stem)
    said = [json.loads(line) for line in again.stdout.splitlines()]
    assert said[0] == {"type": "session", "session_id": file.stem, "notes": 3, "of": 12}
    assert said[-1] == whole[-1]
    assert len(said) == 1 + 9 + 1


def test_the_program_knows_no_foreign_conversation(tmp_path: Path) -> None:
    text = tmp_path / "text.md"
    text.write_text(TEXT)
    answer = notetaker(str(text), "--home", str(tmp_path), "--resume", "none")
    assert answer.returncode == 1
    assert "there is no conversation none" in answer.stderr
