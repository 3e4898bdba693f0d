"""Helpers of the house tests: the repository's source roots and their modules as syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
SOURCE_ROOTS = (
    TOP / "service",
    TOP / "drivers",
    TOP / "clients" / "python",
    TOP / "testkit",
)
GENERATED = "stepwell_client.v1"


@dataclass(frozen=True)
class Module:
    """One Python file: its dotted name, path, text and tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module


def is_generated(name: str) -> bool:
    """Return whether the module is generated: no house rule binds it."""
    return name == GENERATED or name.startswith(GENERATED + ".")


def python_files(*tops: Path) -> Iterator[Path]:
    """Every Python file below the folders, without hidden folders and caches."""
    for top in tops:
        for path in sorted(top.rglob("*.py")):
            parts = path.relative_to(top).parts
            if not any(part.startswith(".") or part == "__pycache__" for part in parts):
                yield path


def read_module(root: Path, path: Path) -> Module:
    """Parses one file; its name is taken from its place below the source root."""
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    text = path.read_text(encoding="utf-8")
    return Module(".".join(parts), path, text, ast.parse(text, filename=str(path)))


def read_modules(*roots: Path) -> dict[str, Module]:
    """All hand-written modules below the source roots, by name."""
    modules = [read_module(root, path) for root in roots for path in python_files(root)]
    return {module.name: module for module in modules if not is_generated(module.name)}


def longest_prefix(name: str, table: Mapping[str, object]) -> str | None:
    """The key of the table that the dotted name is, or lies below; the longest one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in table:
            return prefix
    return None


def write_tree(top: Path, files: Mapping[str, str]) -> Path:
    """Writes small sources for a test of a house test."""
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return top
