"""Imports go down only: no upward arrow, no circle, no import that hides from the running program.

A module belongs to the longest prefix in GROUPS; one that no prefix names fails, so a new module
gets its floor on the day it is written. To extend: add a line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.unit.house.source import DISTRIBUTIONS, Module, longest_prefix, modules


class Group(NamedTuple):
    """A floor, and what a module there may import of ours besides its own group."""

    floor: int
    may: tuple[str, ...] = ()


CORE = "stepwell.core"
RECORDS = "stepwell.core.records"
PORT = "stepwell.core.port"
LOOP = "stepwell.core.loop"
CONFIG = "stepwell.config"
PROTOCOL = "stepwell_client.v1"
STORE_PROTOCOL = "stepwell_client.store"
TLS = "stepwell_client.tls"
TOKEN_FILE = "stepwell_client.token_file"
ANSWER_TOKENS = "stepwell_client.answer_tokens"
LOGGER = "stepwell.logger"
CLIENT_BASE = (
    PROTOCOL,
    "stepwell_client.word",
    "stepwell_client.errors",
    "stepwell_client.enums",
    "stepwell_client.options",
    TLS,
    TOKEN_FILE,
    ANSWER_TOKENS,
)
ADAPTER_BASE = tuple(
    f"stepwell_frameworks.{name}" for name in ("approvals", "home_loop", "tool_options")
)
CLIENT_MIDDLE = ("stepwell_client.link", "stepwell_client.records")
ENGINE = (
    *(CORE, CONFIG, LOGGER, "stepwell.runtime"),
    *("stepwell.engine", "stepwell.watch", "stepwell.schemas"),
)
SHELL = (*ENGINE, "stepwell.wire", "stepwell.store", "stepwell.app")

GROUPS: dict[str, Group] = {
    # Floor 1: values. Errors and limits hold nothing of ours; records may use both.
    "stepwell.config": Group(1),
    LOGGER: Group(1),
    "stepwell.core.records.states": Group(1),
    "stepwell.core.records.errors": Group(1),
    "stepwell.core.records.limits": Group(1, ("stepwell.core.records.errors",)),
    RECORDS: Group(1, (RECORDS,)),
    # Floor 2: the port, the loop and its forks.
    PORT: Group(2, (RECORDS,)),
    LOOP: Group(2, (RECORDS, PORT)),
    "stepwell.core.fork": Group(2, (RECORDS, PORT, LOOP)),
    # Floor 3: what stands around the loop.
    "stepwell.runtime": Group(3, (CORE,)),
    "stepwell.wire": Group(3, (CORE, PROTOCOL, STORE_PROTOCOL)),
    "stepwell.store": Group(3, (CORE, CONFIG)),
    "stepwell.watch": Group(3, (CORE, CONFIG)),
    "stepwell.schemas": Group(3, (CORE,)),
    "stepwell.engine": Group(3, (CORE, CONFIG, LOGGER)),
    # Floor 4: what both edges do, records in and records out.
    "stepwell.app": Group(4, (*ENGINE, ANSWER_TOKENS)),
    # Floor 5: the edges, which don't know each other.
    "stepwell.rpc": Group(5, (*SHELL, PROTOCOL, STORE_PROTOCOL, TLS, ANSWER_TOKENS)),
    "stepwell_drivers": Group(5, (CORE, LOGGER)),
    "stepwell_drivers.remote": Group(
        5,
        (
            *(CORE, "stepwell.wire", "stepwell_drivers.hints"),
            *(PROTOCOL, STORE_PROTOCOL, TLS, TOKEN_FILE),
        ),
    ),
    # Floor 6: composition.
    "stepwell.embedded": Group(6, (*SHELL, "stepwell.rpc", "stepwell_client")),
    "stepwell.console": Group(6, (*SHELL, "stepwell.rpc", PROTOCOL, ANSWER_TOKENS)),
    "stepwell.cli": Group(
        6, (*SHELL, "stepwell.rpc", "stepwell.console", "stepwell.embedded", "stepwell_client")
    ),
    "stepwell.__main__": Group(6, ("stepwell.cli",)),
    # Distributions of their own: the client is below everything, adapters of frameworks and the test kit above.
    "stepwell_client": Group(0, ("stepwell_client",)),
    PROTOCOL: Group(0),
    STORE_PROTOCOL: Group(0, (PROTOCOL,)),
    **{f"stepwell_client.{name}": Group(0, (PROTOCOL,)) for name in ("errors", "tls")},
    "stepwell_client.word": Group(0),
    "stepwell_client.options": Group(0),
    TOKEN_FILE: Group(0),
    ANSWER_TOKENS: Group(0),
    "stepwell_client.enums": Group(0, (PROTOCOL, "stepwell_client.word")),
    "stepwell_client.link": Group(0, CLIENT_BASE),
    "stepwell_client.records": Group(0, CLIENT_BASE),
    "stepwell_client.calls": Group(0, (*CLIENT_BASE, *CLIENT_MIDDLE)),
    "stepwell_client.agent": Group(0, (*CLIENT_BASE, *CLIENT_MIDDLE)),
    "stepwell_client.worker": Group(
        0, (*CLIENT_BASE, *CLIENT_MIDDLE, "stepwell_client.calls", "stepwell_client.agent")
    ),
    "stepwell_frameworks": Group(1, ("stepwell_client",)),
    **{
        f"stepwell_frameworks.{name}": Group(1, (*ADAPTER_BASE, "stepwell_client"))
        for name in ("langgraph", "openai_agents", "pydantic_ai")
    },
    "stepwell_testkit": Group(7, (*SHELL, "stepwell.embedded", "stepwell_client")),
}
# The top package is a name and a docstring: a prefix for all would let unknown modules through.
EXACT: dict[str, Group] = {"stepwell": Group(1), CORE: Group(1)}

OURS = frozenset(DISTRIBUTIONS.values())
# Libraries of the edges, which a floor must not know.
FOREIGN: dict[str, frozenset[str]] = {
    CORE: frozenset({"grpc", "google", "sqlalchemy", "alembic", "pydantic", "typer", "rich"}),
    "stepwell_client": frozenset({"sqlalchemy", "alembic", "msgspec", "typer", "rich"}),
}


def group_of(name: str) -> str | None:
    """The group's prefix, or None for a module that has no place yet."""
    return name if name in EXACT else longest_prefix(name, GROUPS)


def floor_of(prefix: str) -> int:
    """The floor of a module or package; of a package with several groups, the highest."""
    name = longest_prefix(prefix, GROUPS)
    if name is not None:
        return GROUPS[name].floor
    return max(group.floor for name, group in GROUPS.items() if name.startswith(prefix + "."))


def imports_of(module: Module, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything the module imports, wherever in the file it does."""
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(names=names):
                base = node.module or ""
                if node.level:
                    above = package.split(".")[: len(package.split(".")) - node.level + 1]
                    base = ".".join([*above, *([node.module] if node.module else [])])
                for alias in names:
                    full = f"{base}.{alias.name}"
                    # `from package import module` is an arrow to the module.
                    is_module = full in known or full.startswith(PROTOCOL)
                    yield node.lineno, full if is_module else base
            case ast.Call(func=called, args=[ast.Constant(str() as name), *_]):
                if ast.unparse(called).rpartition(".")[2] in {"import_module", "__import__"}:
                    yield node.lineno, name
            case _:
                pass


def may_import(importer: str, imported: str) -> bool:
    """Return whether the table draws an arrow between the two modules' groups."""
    source, target = group_of(importer), group_of(imported)
    if source is None or target is None:
        return False
    if source == target:
        return True
    allowed = (EXACT.get(source) or GROUPS[source]).may
    return any(imported == prefix or imported.startswith(prefix + ".") for prefix in allowed)


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Each circle of imports that a walk from every module meets, as the modules on it."""
    found: list[list[str]] = []
    done: set[str] = set()

    def walk(name: str, trail: list[str]) -> None:
        if name in trail:
            found.append([*trail[trail.index(name) :], name])
            return
        if name in done:
            return
        for target in sorted(arrows.get(name, ())):
            walk(target, [*trail, name])
        done.add(name)

    for name in sorted(arrows):
        walk(name, [])
    return found


def violations(*found: Module) -> list[str]:
    """Every broken rule, one line each."""
    known = {module.name for module in found}
    lines: list[str] = []
    arrows: dict[str, set[str]] = {}
    for module in found:
        name = module.name
        if group_of(name) is None:
            lines.append(f"{name}: has no floor; add its prefix to GROUPS")
            continue
        foreign = FOREIGN.get(longest_prefix(name, FOREIGN) or "", frozenset())
        for line, imported in imports_of(module, known):
            top = imported.partition(".")[0]
            if top in foreign:
                lines.append(f"{name}:{line}: imports {top}, which is for the edges")
            if top not in OURS:
                continue
            if imported in known and imported != name:
                arrows.setdefault(name, set()).add(imported)
            if not may_import(name, imported):
                lines.append(f"{name}:{line}: must not import {imported}")
        lines += [
            f"{name}:{node.lineno}: TYPE_CHECKING hides an import"
            for node in ast.walk(module.tree)
            if (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")
            or (isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING")
        ]
    lines += ["circle: " + " → ".join(circle) for circle in circles(arrows)]
    return lines


def test_imports_go_down_only() -> None:
    assert violations(*(one for one in modules() if one.distribution)) == []


def test_the_table_itself_draws_no_arrow_upward() -> None:
    upward = [
        f"{name} (floor {group.floor}) → {target}"
        for name, group in {**GROUPS, **EXACT}.items()
        for target in group.may
        if floor_of(target) > group.floor
    ]
    assert upward == []


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("stepwell/core/loop/a.py", "import stepwell.engine", "must not import stepwell.engine"),
        ("stepwell/core/loop/a.py", "from stepwell import config", "must not import"),
        ("stepwell/core/loop/a.py", "import grpc", "imports grpc"),
        ("stepwell/store/a.py", "import_module('stepwell_drivers.sql')", "must not import"),
        ("stepwell/watch/__init__.py", "def f():\n    from .. import rpc", "must not import"),
        ("stepwell/brand_new.py", "", "has no floor"),
        ("stepwell/wire/a.py", "import typing\nif typing.TYPE_CHECKING: pass", "TYPE_CHECKING"),
        ("stepwell/wire/a.py", "from stepwell_client.v1 import types_pb2", ""),
        ("stepwell/core/fork/a.py", "import stepwell.core.loop", ""),
    ],
)
def test_each_violation_is_caught(path: str, source: str, expected: str) -> None:
    others = [Module(f"service/stepwell/{name}.py", "") for name in ("config", "rpc/__init__")]

    lines = violations(*others, Module(f"service/{path}", source))

    assert len(lines) == bool(expected), lines
    assert expected in "".join(lines)


def test_a_circle_is_caught() -> None:
    sources = {
        "a": "from stepwell.core.loop.graph import x",
        "graph": "from stepwell.core.loop import retry",
        "retry": "def f():\n    from . import a",
    }
    found = [Module(f"service/stepwell/core/loop/{k}.py", text) for k, text in sources.items()]

    walk = "a → stepwell.core.loop.graph → stepwell.core.loop.retry → stepwell.core.loop.a"
    assert violations(*found) == [f"circle: stepwell.core.loop.{walk}"]
