"""A command-line agent program: it reads a text and takes a note of every paragraph.

It knows nothing of Stepwell. As such programs do, it keeps its conversations in files of its own, by session
id, streams what it says as JSON lines, and goes on with a conversation by `--resume ID`:

    python -m examples.cli_agent.notetaker --home ~/.notetaker README.md
    python -m examples.cli_agent.notetaker --home ~/.notetaker --resume 5f1c… README.md

Instead of a model it has a rule (the most frequent long word of a paragraph), so it needs no network.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

LONG_CHARS = 5


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of a text."""
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def note_on(paragraph: str) -> str:
    """Think about a paragraph."""
    words = re.findall(r"[^\W\d_]+", paragraph.lower())
    long = Counter(word for word in words if len(word) >= LONG_CHARS)
    about = long.most_common(1)[0][0] if long else "little"
    return f"{len(words)} words, about {about}"


class Conversation:
    """The notes so far, in a file: a line each."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        file.seek(0)
        # A line that a crash cut short is removed: it was never finished.
        whole = [line for line in file.read().splitlines(keepends=True) if line.endswith("\n")]
        self.notes: list[str] = [json.loads(line)["note"] for line in whole]
        file.seek(0)
        file.truncate(len("".join(whole).encode()))
        file.seek(0, 2)

    def add(self, note: str) -> None:
        """Keep a note."""
        self._file.write(json.dumps({"note": note}) + "\n")
        self._file.flush()
        self.notes.append(note)


@contextmanager
def conversation(home: Path, session_id: str, *, resume: bool) -> Iterator[Conversation]:
    """Open a conversation for this process alone, after any other process has closed it."""
    path = home / f"{session_id}.jsonl"
    if resume and not path.exists():
        raise SystemExit(f"there is no conversation {session_id} in {home}")
    home.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield Conversation(file)


def write(**message: Any) -> None:
    """Write a message to the program that runs this one; end if it no longer reads."""
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:
        raise SystemExit(1) from None


def main() -> None:
    """Read the text, from where the conversation stands."""
    parser = argparse.ArgumentParser(prog="notetaker")
    parser.add_argument("text", type=Path)
    parser.add_argument("--home", type=Path, required=True, help="where conversations are kept")
    parser.add_argument("--resume", metavar="ID", default="", help="go on with this one")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds a note takes")
    given = parser.parse_args()
    session_id = given.resume or str(uuid.uuid4())
    paragraphs = paragraphs_of(given.text.read_text(encoding="utf-8"))
    with conversation(given.home, session_id, resume=bool(given.resume)) as talk:
        write(type="session", session_id=session_id, notes=len(talk.notes), of=len(paragraphs))
        for paragraph in paragraphs[len(talk.notes) :]:
            time.sleep(given.pace)
            # EntryAck first, because without a reader the next process makes this note again.
            note = note_on(paragraph)
            write(type="text", text=note + "\n")
            talk.add(note)
        write(type="result", notes=talk.notes)


if __name__ == "__main__":
    sys.exit(main())
