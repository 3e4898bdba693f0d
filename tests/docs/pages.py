"""The documents as their readers use them: what stands in fences, ready to be run."""

from __future__ import annotations

import re
from pathlib import Path
from types import CodeType
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]
PAGES = (
    TOP / "README.md",
    TOP / "CONTRIBUTING.md",
    TOP / "CHANGELOG.md",
    *sorted((TOP / "docs").rglob("*.md")),
)

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block, and the line of the page that it begins in."""

    language: str
    text: str
    line: int


def blocks(page: Path, language: str) -> list[Block]:
    """Return a page's blocks in a language, in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(language, found["text"], text.count("\n", 0, found.start("text")) + 1)
        for found in _FENCE.finditer(text)
        if found["language"] == language
    ]


def block(page: Path, language: str, mark: str) -> str:
    """Return the text of the only block of a language that has something in it."""
    (found,) = [one.text for one in blocks(page, language) if mark in one.text]
    return found


def compiled(page: Path, block: Block) -> CodeType:
    """Return a Python block as code whose tracebacks name the page and its lines."""
    return compile("\n" * (block.line - 1) + block.text, str(page), "exec")


README_AGENT = blocks(TOP / "README.md", "python")[0].text
QUICK_README_AGENT = README_AGENT.replace("time.sleep(10)", "time.sleep(0)")
"""The same without its pause, for what no test kills."""
