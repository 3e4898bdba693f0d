"""What a file comes to: lines, functions, the longest of them, imports, or why it can't be parsed.

Python is read by `ast`. Other languages are counted line by line, modestly: a function starts where a
line looks like it and ends at the next line that is indented no deeper and closes something. Files
are read one at a time and summed at once, so a part of any size takes little memory.
"""

from __future__ import annotations

import ast
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path, PurePosixPath

FILE_BYTES_MAX = 1024 * 1024
"""Larger files are data more often than work of hands; they are counted as skipped."""
LONGEST_KEPT = 10
UNPARSABLE_KEPT = 50
NAMES_BYTES_MAX = 200 * 1024
"""Of module names and of imports, each: a task's result must stay below 1 MiB."""


@dataclass(frozen=True)
class Function:
    """A function, or a method, and where it stands."""

    name: str
    path: str
    line: int
    lines: int


@dataclass(frozen=True)
class Unparsable:
    """A file that its language's parser, or its encoding, refuses."""

    path: str
    line: int
    reason: str


@dataclass
class Language:
    """What the files of one language come to."""

    files: int = 0
    lines: int = 0
    functions: int = 0


@dataclass
class Measures:
    """What some files come to together. `add` sums up; so parts can be combined in any order."""

    files: int = 0
    skipped: int = 0
    """Binary, larger than a megabyte, or gone."""
    languages: dict[str, Language] = field(default_factory=dict)
    longest: list[Function] = field(default_factory=list)
    """The longest first, LONGEST_KEPT of them."""
    unparsable: list[Unparsable] = field(default_factory=list)
    unparsable_count: int = 0
    """The list keeps the first UNPARSABLE_KEPT of so many."""
    modules: list[str] = field(default_factory=list)
    """Paths of Python files that are there to be imported: no tests, no scripts, no packages."""
    imports: list[str] = field(default_factory=list)
    """Every dotted name that a Python file imports."""

    @property
    def lines(self) -> int:
        """Of all languages."""
        return sum(language.lines for language in self.languages.values())

    @property
    def functions(self) -> int:
        """Of all languages."""
        return sum(language.functions for language in self.languages.values())

    def add(self, other: Measures) -> None:
        """Add what other files come to. The lists keep their bounds."""
        self.files += other.files
        self.skipped += other.skipped
        self.unparsable_count += other.unparsable_count
        for name, theirs in other.languages.items():
            ours = self.languages.setdefault(name, Language())
            ours.files += theirs.files
            ours.lines += theirs.lines
            ours.functions += theirs.functions
        ranked = sorted(self.longest + other.longest, key=lambda found: -found.lines)
        self.longest = ranked[:LONGEST_KEPT]
        self.unparsable = (self.unparsable + other.unparsable)[:UNPARSABLE_KEPT]
        self.modules = _bounded([*self.modules, *other.modules])
        self.imports = _bounded(sorted({*self.imports, *other.imports}))


def combine(parts: Iterable[Measures]) -> Measures:
    """Sum measures up."""
    total = Measures()
    for part in parts:
        total.add(part)
    return total


def measure_file(top: Path, path: str) -> Measures:
    """Measure one file below the top."""
    language = LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")
    data = read(top / path)
    if data is None:
        return Measures(skipped=1)
    found = Measures(files=1)
    if language == "Python":
        functions = _measure_python(data, path, found)
    else:
        functions = list(_functions_by_lines(data.decode("utf-8", "replace"), path, language))
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    found.languages[language or "other"] = Language(1, lines, len(functions))
    found.longest = sorted(functions, key=lambda function: -function.lines)[:LONGEST_KEPT]
    return found


def read(path: Path) -> bytes | None:
    """Return a text file's bytes; None: it is too large, binary, or not to be had."""
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            return None
        data = path.read_bytes() if size else b""  # Where the size is 0, as in /proc, reading may wait.
    except OSError:
        return None
    return None if b"\0" in data[:8192] else data


def unimported(measures: Measures) -> list[str]:
    """Modules that no file imports, by any end of their dotted names: when in doubt, they are."""
    imported = set(measures.imports)
    return [path for path in measures.modules if not imported.intersection(_names_of(path))]


def _names_of(path: str) -> Iterator[str]:
    parts = PurePosixPath(path).with_suffix("").parts
    return (".".join(parts[start:]) for start in range(len(parts)))


# Python


def _measure_python(data: bytes, path: str, found: Measures) -> list[Function]:
    try:
        tree = parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        found.unparsable.append(Unparsable(path, line, reason[:200]))
        found.unparsable_count = 1
        return []
    found.imports = _bounded(sorted(set(_imports(tree, path))))
    if not _is_entry_point(path, tree):
        found.modules = [path]
    return [
        Function(node.name, path, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def parse(data: bytes) -> ast.Module:
    """Return a Python file's syntax tree. Raises SyntaxError with the line at fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of the file's author, not of ours.
        return ast.parse(data)


def _imports(tree: ast.Module, path: str) -> Iterator[str]:
    """Names that the file imports, with those that `from package import name` may mean."""
    folder = PurePosixPath(path).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_entry_point(path: str, tree: ast.Module) -> bool:
    """Whether the file is run or collected by its name, so that nobody needs to import it."""
    name = PurePosixPath(path).name
    if name in {"__init__.py", "__main__.py", "conftest.py", "setup.py"} or name.endswith(".pyi"):
        return True
    if name.startswith("test_") or name.endswith("_test.py"):
        return True
    return any(
        isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body
    )


# Other languages

LANGUAGES = {
    ".py": "Python", ".pyi": "Python", ".js": "JavaScript", ".mjs": "JavaScript",
    ".jsx": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".go": "Go", ".rs": "Rust",
    ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".java": "Java",
    ".kt": "Kotlin", ".cs": "C#", ".rb": "Ruby", ".php": "PHP", ".sh": "Shell", ".lua": "Lua",
    ".sql": "SQL", ".proto": "Protobuf", ".html": "HTML", ".css": "CSS", ".md": "Markdown",
    ".rst": "reStructuredText", ".txt": "text", ".json": "JSON", ".toml": "TOML", ".yaml": "YAML",
    ".yml": "YAML", ".xml": "XML", ".ini": "INI", ".cfg": "INI",
}  # fmt: skip

_BRACES = r"^\s*(?:[\w:<>,*&~\[\]]+\s+)+\**(?P<name>~?\w+)\s*\([^;]*\)?[^;=]*\{?\s*$"
_STARTS = {
    "Go": r"^func\s+(?:\([^)]*\)\s*)?(?P<name>\w+)",
    "Rust": r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*fn\s+(?P<name>\w+)",
    "JavaScript": r"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s*\*?\s*(?P<name>\w+)"
    r"|^\s*(?:export\s+)?(?:const|let)\s+(?P<arrow>\w+)\s*=\s*(?:async\s*)?\(.*=>\s*\{\s*$",
    "Shell": r"^\s*(?:function\s+)?(?P<name>[\w-]+)\s*\(\)\s*\{?",
    "Ruby": r"^\s*def\s+(?P<name>[\w.?!]+)",
    "Lua": r"^\s*(?:local\s+)?function\s+(?P<name>[\w.:]+)",
    "PHP": r"^\s*(?:\w+\s+)*function\s+(?P<name>\w+)",
    "Kotlin": r"^\s*(?:\w+\s+)*fun\s+(?:<[^>]*>\s*)?(?P<name>[\w.]+)",
    "Protobuf": r"^\s*rpc\s+(?P<name>\w+)",
    "C": _BRACES, "C++": _BRACES, "Java": _BRACES, "C#": _BRACES,
}  # fmt: skip
_STARTS["TypeScript"] = _STARTS["JavaScript"]
_PATTERNS = {language: re.compile(pattern) for language, pattern in _STARTS.items()}
_NO_FUNCTIONS = frozenset({"if", "else", "for", "while", "switch", "return", "catch", "new"})
_LINE_CHARS_MAX = 300
"""Longer lines are not written by hand, and patterns take long on them."""


def _functions_by_lines(text: str, path: str, language: str) -> Iterator[Function]:
    pattern = _PATTERNS.get(language)
    if pattern is None:
        return
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = pattern.match(line) if len(line) <= _LINE_CHARS_MAX else None
        if found is None or line.split(maxsplit=1)[0] in _NO_FUNCTIONS:
            continue
        name = found["name"] or found.groupdict().get("arrow") or "?"
        if name not in _NO_FUNCTIONS:
            yield Function(name, path, number + 1, _length(lines, number))
