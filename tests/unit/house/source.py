"""The tree as the house's rules see it: every hand-written Python file, read and parsed once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
DISTRIBUTIONS = {
    "service/": "stepwell",
    "drivers/": "stepwell_drivers",
    "clients/python/": "stepwell_client",
    "clients/frameworks/": "stepwell_frameworks",
    "testkit/": "stepwell_testkit",
}
"""Source roots of what is shipped, and the package that each one holds."""
SHIPPED = tuple(DISTRIBUTIONS)
FOLDERS = (*SHIPPED, "scripts/", "tests/", "bench/", "examples/")
GENERATED = (
    *("clients/python/stepwell_client/v1/", "clients/python/stepwell_client/store/"),
    "clients/python/stepwell_client/records/messages_pb2.py",
    "service/stepwell/wire/conversions_pb2.py",
)


@dataclass(frozen=True)
class Module:
    """One Python file: its path below the top, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, filename=self.path)

    @property
    def distribution(self) -> str:
        """The package of its distribution; empty: it isn't shipped."""
        return next((DISTRIBUTIONS[root] for root in SHIPPED if self.path.startswith(root)), "")

    @property
    def is_package(self) -> bool:
        """Return whether it is an `__init__` file."""
        return self.path.endswith("/__init__.py")

    @property
    def name(self) -> str:
        """The dotted name, by its place below the source root."""
        root = next((root for root in SHIPPED if self.path.startswith(root)), "")
        below = self.path.removeprefix(root).removesuffix(".py").removesuffix("/__init__")
        return below.replace("/", ".")


Rule = Callable[[Module], Iterator[tuple[int, str]]]
"""Yields what is wrong in a module, and in which line."""


@cache
def modules() -> tuple[Module, ...]:
    """Return all hand-written modules of this tree."""
    files = (path for folder in FOLDERS for path in sorted((TOP / folder).rglob("*.py")))
    texts = {path.relative_to(TOP).as_posix(): path for path in files}
    return tuple(
        Module(name, path.read_text(encoding="utf-8"))
        for name, path in texts.items()
        if not name.startswith(GENERATED) and "/." not in name
    )


def findings(rule: Rule, among: Iterable[Module]) -> list[str]:
    """Return everything that a rule finds, one line each."""
    return [f"{one.path}:{line}: {wrong}" for one in among for line, wrong in rule(one)]


def longest_prefix(name: str, table: Mapping[str, object]) -> str | None:
    """The key of the table that the dotted name is, or lies below; the longest one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in table:
            return prefix
    return None
