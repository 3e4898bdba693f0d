"""Measures of files: lines, functions, the longest of them, imports, and why some can't be parsed.

Pure functions over files. Each file is read, measured and summed up before the next one, so a part
of any size takes little memory.
"""

from __future__ import annotations

import ast
import json
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path, PurePosixPath

from examples.survey.by_lines import LANGUAGES, functions_in

FILE_BYTES_MAX = 1024 * 1024
"""A larger file is data rather than anybody's writing; it counts as skipped."""
LONGEST_KEPT = 10
UNPARSABLE_KEPT = 50
NAMES_BYTES_MAX = 200 * 1024
"""The limit of modules' and of imports' names: what a task returns must stay below 1 MiB."""

SURVEYED = "<surveyed>"
# What Python says about the strings of the files that it reads here is their authors' business.
warnings.filterwarnings("ignore", module=SURVEYED)


@dataclass(frozen=True)
class Function:
    """A function or a method, and where it stands."""

    name: str
    path: str
    line: int
    lines: int


@dataclass(frozen=True)
class Unparsable:
    """A file that the parser of its language refuses."""

    path: str
    line: int
    reason: str


@dataclass
class Language:
    """Counts of the files of one language."""

    files: int = 0
    lines: int = 0
    functions: int = 0


@dataclass
class Measures:
    """Counts of one file, of a part of a tree, or of all of it."""

    files: int = 0
    skipped: int = 0
    """Binary, larger than a megabyte, or not to be read."""
    languages: dict[str, Language] = field(default_factory=dict[str, Language])
    longest: list[Function] = field(default_factory=list[Function])
    """The longest first, LONGEST_KEPT of them."""
    unparsable_count: int = 0
    unparsable: list[Unparsable] = field(default_factory=list[Unparsable])
    """The first UNPARSABLE_KEPT of them."""
    modules: list[str] = field(default_factory=list[str])
    """Python files that are there to be imported: no tests, no scripts, no packages' own."""
    imports: list[str] = field(default_factory=list[str])
    """Every dotted name that a Python file imports."""
    names_cut: bool = False
    """There were more modules or imports than find room here."""

    @property
    def lines(self) -> int:
        """In all languages."""
        return sum(language.lines for language in self.languages.values())

    @property
    def functions(self) -> int:
        """In all languages."""
        return sum(language.functions for language in self.languages.values())


def combine(parts: Iterable[Measures]) -> Measures:
    """Add counts up. The order and the grouping change nothing, so parts can be combined by parts."""
    total = Measures()
    imports: set[str] = set()
    for part in parts:
        total.files += part.files
        total.skipped += part.skipped
        for name, found in part.languages.items():
            language = total.languages.setdefault(name, Language())
            language.files += found.files
            language.lines += found.lines
            language.functions += found.functions
        total.longest = _longest([*total.longest, *part.longest])
        total.unparsable_count += part.unparsable_count
        total.unparsable += part.unparsable[: UNPARSABLE_KEPT - len(total.unparsable)]
        total.modules += part.modules
        imports.update(part.imports)
        total.names_cut |= part.names_cut
    for name, names in (("modules", total.modules), ("imports", sorted(imports))):
        kept = list(_within(names, NAMES_BYTES_MAX))
        setattr(total, name, kept)
        total.names_cut |= len(kept) < len(names)
    return total


def measure_file(top: Path, path: str) -> Measures:
    """Measure one file below the top."""
    data = read(top / path)
    if data is None:
        return Measures(skipped=1)
    language = LANGUAGES.get(PurePosixPath(path).suffix.lower(), "other")
    found = Measures(files=1)
    functions: list[Function] = []
    try:
        if language == "Python":
            tree = parse(data)
            functions = [Function(name, path, *where) for name, *where in _functions(tree)]
            found.imports = sorted(set(_imports(tree, path)))
            found.modules = [] if _is_entry_point(path, tree) else [path]
        elif language == "JSON":
            json.loads(data)
        elif language == "TOML":
            tomllib.loads(data.decode())
        else:
            text = data.decode("utf-8", "replace")
            functions = [Function(n, path, *where) for n, *where in functions_in(text, language)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        found.unparsable_count = 1
        found.unparsable = [_unparsable(path, error)]
    lines = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    found.languages = {language: Language(1, lines, len(functions))}
    found.longest = _longest(functions)
    return found


def read(path: Path) -> bytes | None:
    """Return a text's bytes, or None if the file is too large, binary, or not to be read."""
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            return None
        # A size of 0 may be one of /proc's, where a read may block without end.
        data = path.read_bytes() if size else b""
    except OSError:
        return None
    return None if b"\0" in data[:8192] else data


def parse(data: bytes) -> ast.Module:
    """Return a Python file's syntax tree. Raises SyntaxError, and ValueError for odd bytes."""
    return ast.parse(data, SURVEYED)


def unimported(top: Path, measures: Measures) -> list[str]:
    """Modules that no file imports by any end of their dotted names: when in doubt, one does."""
    imported = set(measures.imports)

    def names(path: str) -> Iterator[str]:
        parts = (top.absolute() / path).with_suffix("").parts[1:]
        return (".".join(parts[start:]) for start in range(len(parts)))

    return [path for path in measures.modules if not imported.intersection(names(path))]


def _functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def _imports(tree: ast.Module, path: str) -> Iterator[str]:
    """Names of modules, and those that `from package import name` may mean."""
    package = PurePosixPath(path).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: max(0, len(package) - node.level + 1)] if node.level else ()
            base = [*above, *([node.module] if node.module else [])]
            yield ".".join(base)
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _is_entry_point(path: str, tree: ast.Module) -> bool:
    """Return whether the file is run, collected or read by its name, so that no import is needed."""
    name = PurePosixPath(path).name
    return (
        name in {"__init__.py", "__main__.py", "conftest.py", "setup.py"}
        or name.startswith("test_")
        or name.endswith(("_test.py", ".pyi"))
        or any(isinstance(node, ast.If) and _names(node.test, "__name__") for node in tree.body)
    )


def _names(expression: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(expression))


def _unparsable(path: str, error: BaseException) -> Unparsable:
    """From what parsers raise: SyntaxError, JSONDecodeError, TOMLDecodeError, UnicodeDecodeError."""
    line = getattr(error, "lineno", None) or 1
    reason = getattr(error, "msg", None) or str(error) or type(error).__name__
    return Unparsable(path, line, str(reason)[:200])


def _longest(functions: Iterable[Function]) -> list[Function]:
    return nlargest(LONGEST_KEPT, functions, key=lambda function: function.lines)


def _within(names: Iterable[str], bytes_max: int) -> Iterator[str]:
    left = bytes_max
    for name in names:
        left -= len(json.dumps(name)) + 1
        if left < 0:
            return
        yield name
