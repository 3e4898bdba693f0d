"""The questions to the model: for each a prompt, and the schema that its answer is held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from examples.researcher.models import Schema

WORD = {"type": "string", "pattern": "^[a-z]{3,12}$", "default": "water"}
TITLE = {
    "type": "string",
    "pattern": "^[A-Z][a-z]{2,11}( [a-z]{2,11}){2,5}$",
    "default": "What the texts say",
}
TEXTS_MIN = 4
"""Texts that are read before the model may end its work, where there are so many."""


@dataclass
class Work:
    """The state of the work: what the next question is made of."""

    goal: str
    files: Sequence[str]
    quotes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Quotes of each file that has been read, also when there are none."""
    searched: bool = False
    news: str = ""
    """The outcome of the last tool."""

    @property
    def unread(self) -> list[str]:
        return [name for name in self.files if name not in self.quotes]

    @property
    def all_quotes(self) -> list[str]:
        return list(dict.fromkeys(quote for quotes in self.quotes.values() for quote in quotes))


def next_move(work: Work) -> tuple[str, Schema]:
    """Ask which tool comes next, and with what."""
    moves: list[Schema] = [] if work.searched else [_move("search_word", word=WORD)]
    moves.append(_move("read_file", file={"enum": work.unread}))
    if len(work.quotes) >= TEXTS_MIN:
        moves.append(_move("finish"))
    prompt = (
        f"Question: {work.goal}\n{work.news}\nFiles that you haven't read: {', '.join(work.unread)}\n"
        "You can search_word in all files, read_file one of them, or finish. What next?"
    )
    return prompt, {"anyOf": moves}


def quote(goal: str, text: str, offered: Sequence[str], many: int) -> tuple[str, Schema]:
    """Ask which sentences of a text answer the question: as many, where it has so many."""
    many = min(many, len(offered))
    prompt = f"Text: {text}\n\nQuestion: {goal}\nQuote the sentences of the text that answer it."
    items = {"type": "array", "items": {"enum": offered}, "minItems": many, "maxItems": many}
    return prompt, _object(quotes=items)


def conclusion(quotes: Sequence[str]) -> tuple[str, Schema]:
    """Ask for a title, and for the best of the quotes."""
    notes = "\n".join(quotes)
    prompt = f"{notes}\n\nGive this text a title, and choose its best sentence."
    return prompt, _object(title=TITLE, best={"enum": quotes})


def _move(tool: str, **arguments: Schema) -> Schema:
    return _object(tool={"const": tool}, **arguments)


def _object(**properties: Mapping[str, Any]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
