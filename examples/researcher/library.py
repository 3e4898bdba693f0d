"""The texts of a folder, and the tools that read them."""

from __future__ import annotations

import re
from pathlib import Path

from stepwell_client import NonRetryable

FILES_MAX = 8
CHARS_MAX = 1_500
"""The limit of what is read of a file, so that it fits into a prompt."""
SENTENCES_MAX = 12
SENTENCE_CHARS = range(20, 301)
LINES_FOUND_MAX = 4
MARKDOWN = ("#", "|", "<", "```")
"""Beginnings of lines that hold no sentence: headings, tables, comments, fences."""


def list_files(folder: str) -> list[str]:
    """Return the names of the texts, the first FILES_MAX of them. Raises NonRetryable where there are none."""
    top = Path(folder)
    names = [p.name for p in sorted(top.glob("*")) if p.suffix in {".txt", ".md"} and p.is_file()]
    if not names:
        raise NonRetryable(f"there are no .txt or .md files in {folder}")
    return names[:FILES_MAX]


def read_file(folder: str, name: str) -> str:
    """Return a text's beginning as one line, without the first line, which is a heading, and without Markdown's own."""
    text = (Path(folder) / name).read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.strip().splitlines()[1:] if not line.startswith(MARKDOWN)]
    return " ".join(" ".join(lines).split())[:CHARS_MAX]


def search_word(folder: str, word: str) -> list[str]:
    """Return the sentences with a word, each behind the name of its file."""
    found = [
        f"{name}: {sentence}"
        for name in list_files(folder)
        for sentence in sentences(read_file(folder, name))
        if re.search(rf"\b{re.escape(word)}\b", sentence, re.IGNORECASE)
    ]
    return found[:LINES_FOUND_MAX]


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that can be quoted, each once."""
    parts = re.split(r"(?<=[.!?])\s+", text)
    return list(dict.fromkeys(part for part in parts if len(part) in SENTENCE_CHARS))[
        :SENTENCES_MAX
    ]
