"""Draws the tables and the picture of the loop in docs/ from the code, or proves that they are fresh.

    .venv/bin/python -m scripts.diagrams            # draws them
    .venv/bin/python -m scripts.diagrams --check    # says which are stale, exit code 1

A page holds regions, and only what stands in them is drawn:

    <!-- drawn from core/loop/table.py: begin steps -->
    <!-- drawn from core/loop/table.py: end steps -->

What a state means is its docstring in core/records/states.py; where there is none, its comment in types.proto.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from scripts import pictures
from scripts.commands_page import commands

from stepwell import config
from stepwell.core.loop import table
from stepwell.core.records import limits, states
from stepwell.rpc import scopes
from stepwell_drivers.sql import views

TOP = Path(__file__).resolve().parent.parent
PAGES = (TOP / "README.md", *sorted((TOP / "docs").rglob("*.md")))
PROTO = TOP / "proto" / "stepwell" / "v1" / "types.proto"

_REGION = re.compile(
    r"(?P<begin><!-- drawn from (?P<source>\S+): begin(?: (?P<name>\S+))? -->\n)"
    r"(?P<body>.*?)"
    r"(?P<end><!-- drawn from (?P=source): end(?: (?P=name))? -->)",
    re.DOTALL,
)
_MIB = 1024 * 1024
_MS = {"day": 24 * 3600 * 1000, "minute": 60 * 1000, "second": 1000}


def docstrings(path: Path) -> dict[tuple[str, str], str]:
    """Return the strings that stand below assignments, by class ("" at the top) and name."""
    found: dict[tuple[str, str], str] = {}

    def collect(body: list[ast.stmt], owner: str) -> None:
        for before, after in itertools.pairwise(body):
            targets = before.targets if isinstance(before, ast.Assign) else []
            if isinstance(before, ast.AnnAssign):
                targets = [before.target]
            if (
                targets
                and isinstance(targets[0], ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found[owner, targets[0].id] = one_line(after.value.value)
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                collect(statement.body, statement.name)

    collect(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def one_line(text: str) -> str:
    """Return the words of a text, as a cell of a table holds them."""
    return " ".join(text.split()).replace("|", "\\|")


def proto_comments() -> dict[str, str]:
    """Return the comment above each value of the enums in types.proto, by the value's name."""
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in PROTO.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("//"):
            comment.append(text.removeprefix("//"))
            continue
        if value := re.match(r"([A-Z][A-Z0-9_]+) = \d+;", text):
            found[value[1]] = one_line(" ".join(comment))
        comment = []
    return found


def meanings(words: type[StrEnum]) -> dict[StrEnum, str]:
    """Return what each state of an enum means, in words."""
    written = docstrings(Path(states.__file__))
    comments = proto_comments()
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words.__name__).upper()
    if words is states.EventType:
        # What each one carries stands there too: the first sentence says what happened.
        comments = {name: re.split(r"(?<=\.) ", text)[0] for name, text in comments.items()}
    return {
        word: written.get((words.__name__, word.name)) or comments.get(f"{prefix}_{word.name}", "")
        for word in words
    }


def rows(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    cells = tuple(head)
    lines = [cells, tuple("---" for _ in cells), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(words: Iterable[object]) -> str:
    """Return words set as code, in their order; a dash where there are none."""
    return " ".join(f"`{word}`" for word in words) or "–"


def steps() -> str:
    """Draw which step each phase asks a worker for, and where its outcome leads."""
    meaning = meanings(states.StepKind)
    body: list[tuple[str, str, str, str]] = []
    for phase, step in table.STEP_OF_PHASE.items():
        leads = [(why, to) for (before, why), to in table.PHASE_MOVES.items() if before is phase]
        where = "<br>".join(f"{why} → `{to}`" for why, to in leads)
        body.append((f"`{phase}`", f"`{step}`", meaning[step], where))
    return rows(("phase", "step", "what the worker is asked for", "what leads on"), body)


def moves_of(words: type[StrEnum], moves: Mapping[Any, frozenset[Any]]) -> Callable[[], str]:
    """Return what draws a table of moves."""

    def draw() -> str:
        meaning = meanings(words)
        body = [
            (f"`{word}`", meaning[word], code(to for to in words if to in moves[word]))
            for word in words
        ]
        return rows(("state", "what it means", "can become"), body)

    return draw


def words_of(words: type[StrEnum]) -> Callable[[], str]:
    """Return what draws the meanings of an enum."""

    def draw() -> str:
        return rows(("word", "what it means"), ((f"`{w}`", m) for w, m in meanings(words).items()))

    return draw


def limit_rows() -> str:
    """Draw the limits by the names that GetServerInfo tells them by."""
    notes = docstrings(Path(limits.__file__))
    body: list[tuple[str, str, str]] = []
    for name, value in vars(limits).items():
        if name.isupper() and isinstance(value, int):
            body.append(
                (f"`{name.lower()}`", amount(name.lower(), value), notes.get(("", name), ""))
            )
    return rows(("limit", "value", "of what"), body)


def amount(name: str, value: int) -> str:
    """Return a number as people read it, by the unit in its name."""
    parts = name.split("_")
    if "bytes" in parts:
        return f"{value // _MIB} MiB" if value % _MIB == 0 else f"{value / 1024:g} KiB"
    if "ms" in parts:
        for unit, ms in _MS.items():
            if value and value % ms == 0:
                count = value // ms
                return f"{count:,} {unit}{'s' if count > 1 else ''}"
    return f"{value:,}"


def settings() -> str:
    """Draw the server's settings with their defaults."""
    notes = docstrings(Path(config.__file__))
    body: list[tuple[str, str, str]] = []

    def add(model: type[BaseModel], path: tuple[str, ...]) -> None:
        for name, field in model.model_fields.items():
            here = (*path, name)
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, config.Group):
                add(kind, here)
                continue
            note = notes.get((model.__name__, name), "")
            body.append((f"`{'.'.join(here)}`", default_of(name, field), note))

    add(config.Settings, ())
    return rows(("setting", "default", "what it is"), body)


def default_of(name: str, field: FieldInfo) -> str:
    """Return a setting's default; a path of the user's begins with `~`."""
    value: Any = field.get_default(call_default_factory=True)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, str | Path):
        value = str(value).replace(str(Path.home()), "~")
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return amount(name, value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def scope_rows() -> str:
    """Draw which scope each service's methods need."""
    by_scope: dict[tuple[str, str], list[str]] = {}
    for method, scope in scopes.SCOPES.items():
        _, service, name = method.split("/")
        by_scope.setdefault(
            (service.rpartition(".")[2] if service.startswith("stepwell.") else service, scope), []
        ).append(name)
    said = {
        scopes.ANY: "any valid token",
        scopes.NONE: "no token",
        scopes.QUESTION: "a question's token, in the request",
    }
    body = [
        (service, said.get(scope) or f"`{scope}`", "all" if scope == scopes.STORE else code(names))
        for (service, scope), names in by_scope.items()
    ]
    return rows(("service", "needs", "methods"), body)


def shown_words() -> str:
    """Draw which word the views of a SQL store show for each status."""
    names = dict.fromkeys(status.value for status in (*views.RUN_WORDS, *views.TASK_WORDS))
    shown = [
        {status.value: f"`{word}`" for status, word in words.items()}
        for words in (views.RUN_WORDS, views.TASK_WORDS)
    ]
    body = [(f"`{name}`", *(words.get(name, "–") for words in shown)) for name in names]
    return rows(("status", "`runs.status`", "`tasks.status`"), body)


DRAWN: dict[tuple[str, str], Callable[[], str]] = {
    ("core/loop/table.py", "steps"): steps,
    ("core/loop/table.py", "runs"): moves_of(states.RunStatus, table.RUN_MOVES),
    ("core/loop/table.py", "tasks"): moves_of(states.TaskStatus, table.TASK_MOVES),
    ("core/loop/table.py", "executions"): moves_of(states.ExecutionStatus, table.EXECUTION_MOVES),
    ("core/records/limits.py", "limits"): limit_rows,
    ("config.py", "settings"): settings,
    ("cli/app.py", "commands"): commands,
    ("rpc/scopes.py", "scopes"): scope_rows,
    ("sql/views.py", "words"): shown_words,
} | {
    ("core/records/states.py", name): words_of(words)
    for name, words in vars(states).items()
    if isinstance(words, type) and issubclass(words, StrEnum) and words is not StrEnum
}


def drawn(page: str) -> str:
    """Return a page with its regions drawn again.

    Raises:
        KeyError: a region asks for what isn't drawn here.
    """

    def draw(region: re.Match[str]) -> str:
        what = DRAWN[region["source"], region["name"] or ""]()
        return f"{region['begin']}\n{what}\n{region['end']}"

    return _REGION.sub(draw, page)


def main() -> int:
    """Draw, or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail if stale")
    check = parser.parse_args().check
    # Where the state lies must not depend on who draws.
    os.environ.pop("XDG_STATE_HOME", None)
    stale: list[str] = []
    for path in (*PAGES, pictures.LOOP):
        page = path.read_text(encoding="utf-8")
        fresh = pictures.loop() if path == pictures.LOOP else drawn(page)
        if fresh == page:
            continue
        stale.append(str(path.relative_to(TOP)))
        if not check:
            path.write_text(fresh, encoding="utf-8")
    if check and stale:
        sys.stderr.write(f"stale: {', '.join(stale)}; run: python -m scripts.diagrams\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
