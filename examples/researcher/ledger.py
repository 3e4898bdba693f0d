"""A ledger beside the journal: each call whose function began, ended, or was answered, as it happened.

It is a file that only grows, so that it knows what a killed worker had done. What the journal promised is checked
against it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from examples.researcher.models import Answer
from stepwell_client import TaskContext

T = TypeVar("T")


class Mark(StrEnum):
    """Kind of a line."""

    BEGAN = "began"
    """A call's function begins."""
    ENDED = "ended"
    """It has ended; nobody has acknowledged that yet."""
    RECORDED = "recorded"
    """The step went on with what the function returned: it was acknowledged."""
    FOUND = "found"
    """The step went on with what an earlier attempt had recorded."""


@dataclass(frozen=True)
class Line:
    """An event of a call."""

    mark: str
    name: str
    execution: str
    """The attempt in which."""
    key: str = ""
    """The call's key in the journal. Empty: it was found there."""
    tokens: int = 0
    text: str = ""
    """The call's value, for people."""


class Ledger:
    """The file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, line: Line) -> None:
        """Add a line, in one write: whoever is killed leaves no half of one."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{json.dumps(asdict(line))}\n".encode())
        finally:
            os.close(file)

    def read(self) -> list[Line]:
        """Return all lines so far."""
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [Line(**json.loads(line)) for line in lines]


class Calls:
    """The calls of one attempt at a step, each written into the ledger."""

    def __init__(self, ctx: TaskContext, ledger: Ledger) -> None:
        self._ctx = ctx
        self._ledger = ledger

    async def make(
        self, name: str, function: Callable[..., T], *arguments: Any, as_: type[T], **options: Any
    ) -> T:
        """Make a call: `ctx.call`, with log lines about its course."""
        keys: list[str] = []

        def run(*given: Any) -> T:
            key = self._ctx.call_key.removeprefix(f"{self._ctx.idempotency_key}/")
            keys.append(key)
            self._write(Mark.BEGAN, name, key)
            value = function(*given)
            self._write(Mark.ENDED, name, key, value)
            return value

        value = await self._ctx.call(name, run, *arguments, as_=as_, **options)
        if keys:
            self._write(Mark.RECORDED, name, keys[-1], value)
        else:
            self._write(Mark.FOUND, name, "", value)
        return value

    def _write(self, mark: Mark, name: str, key: str, value: object = None) -> None:
        tokens = value.tokens if isinstance(value, Answer) else 0
        text = json.dumps(value.data) if isinstance(value, Answer) else ""
        self._ledger.write(Line(mark, name, self._ctx.execution_id, key, tokens, text))


@dataclass
class Tally:
    """Counts of the calls of one name."""

    calls: int = 0
    """Different ones."""
    made: int = 0
    """Times that the function began."""
    cut: int = 0
    """Times that it had no end: the worker was killed meanwhile."""
    found: int = 0
    """Times that a value came from the journal."""
    tokens_used: int = 0
    tokens_found: int = 0
    """Tokens of the values that came from the journal."""


def tallies(lines: Iterable[Line]) -> dict[str, Tally]:
    """Count the lines, by the name of the call."""
    found: dict[str, Tally] = {}
    keys: set[str] = set()
    for line in lines:
        tally = found.setdefault(line.name, Tally())
        match line.mark:
            case Mark.BEGAN:
                tally.calls += line.key not in keys
                tally.made += 1
                tally.cut += 1
                keys.add(line.key)
            case Mark.ENDED:
                tally.cut -= 1
                tally.tokens_used += line.tokens
            case Mark.FOUND:
                tally.found += 1
                tally.tokens_found += line.tokens
    return found


def violations(lines: Sequence[Line], recorded: Mapping[str, str]) -> list[str]:
    """Return what breaks the journal's promise. `recorded` has the attempt that recorded each call, by the call's key.

    A call that is in the journal isn't made again, neither by a later attempt than the one that recorded it nor twice
    by that one; and what was acknowledged is in the journal.
    """
    order = {
        execution: n for n, execution in enumerate(dict.fromkeys(line.execution for line in lines))
    }
    began = [(line.key, line.execution) for line in lines if line.mark == Mark.BEGAN]
    found = [f"{key} was made twice by one attempt" for key, _ in _repeated(began)]
    found += [
        f"{key} was in the journal, and attempt {execution} made it again"
        for key, execution in began
        if key in recorded and order[execution] > order.get(recorded[key], len(order))
    ]
    found += [
        f"{line.key} was acknowledged, and the journal has it not from that attempt"
        for line in lines
        if line.mark == Mark.RECORDED and recorded.get(line.key) != line.execution
    ]
    return found


def _repeated(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [pair for n, pair in enumerate(pairs) if pair in pairs[:n]]
