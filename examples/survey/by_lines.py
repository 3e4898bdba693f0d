"""Functions of languages that are not parsed, found line by line: a modest guess, good for a survey.

A function starts where a line looks like it, and ends at the next line that is indented no deeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LANGUAGES = {
    ".py": "Python", ".pyi": "Python", ".js": "JavaScript", ".mjs": "JavaScript",
    ".jsx": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".go": "Go", ".rs": "Rust",
    ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".java": "Java",
    ".kt": "Kotlin", ".cs": "C#", ".rb": "Ruby", ".php": "PHP", ".sh": "Shell", ".lua": "Lua",
    ".sql": "SQL", ".proto": "Protobuf", ".html": "HTML", ".css": "CSS", ".md": "Markdown",
    ".rst": "reStructuredText", ".txt": "text", ".json": "JSON", ".toml": "TOML", ".yaml": "YAML",
    ".yml": "YAML", ".xml": "XML", ".ini": "INI", ".cfg": "INI",
}  # fmt: skip
"""The language of each suffix; everything else is `other`."""

LINE_CHARS_MAX = 300
"""Longer lines are not written by hand, and patterns take long on them."""

_C_LIKE = r"\s*(?:[\w:<>,*&~\[\]]+\s+)+[*&]*(?P<name>~?\w+)\s*\([^;]*$"
_SCRIPT = (
    r"\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\b\s*\*?\s*(?P<name>\w*)"
    r"|\s*(?:export\s+)?(?:const|let)\s+(?P<arrow>\w+)\s*=\s*(?:async\s*)?\([^=]*\)\s*=>"
)
_STARTS = {
    "C": _C_LIKE, "C++": _C_LIKE, "C#": _C_LIKE, "Java": _C_LIKE,
    "JavaScript": _SCRIPT, "TypeScript": _SCRIPT,
    "Go": r"func\s+(?:\([^)]*\)\s*)?(?P<name>\w+)",
    "Kotlin": r"\s*(?:\w+\s+)*fun\s+(?:<[^>]*>\s*)?(?P<name>[\w.]+)",
    "Lua": r"\s*(?:local\s+)?function\s+(?P<name>[\w.:]+)",
    "PHP": r"\s*(?:\w+\s+)*function\s+(?P<name>\w+)",
    "Protobuf": r"\s*rpc\s+(?P<name>\w+)",
    "Ruby": r"\s*def\s+(?P<name>[\w.?!]+)",
    "Rust": r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|const|unsafe)\s+)*fn\s+(?P<name>\w+)",
    "Shell": r"\s*(?:function\s+)?(?P<name>[\w-]+)\s*\(\)",
}  # fmt: skip
_PATTERNS = {language: re.compile(pattern) for language, pattern in _STARTS.items()}
_NOT_NAMES = frozenset(
    {"case", "catch", "else", "for", "if", "new", "return", "switch", "throw", "while"}
)


def functions_in(text: str, language: str) -> Iterator[tuple[str, int, int]]:
    """Name, first line and number of lines of each function."""
    pattern = _PATTERNS.get(language)
    if pattern is None:
        return
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = pattern.match(line) if len(line) <= LINE_CHARS_MAX else None
        if found is None or line.split(maxsplit=1)[0] in _NOT_NAMES:
            continue
        name = found["name"] or found.groupdict().get("arrow") or "anonymous"
        if name not in _NOT_NAMES:
            yield name, number + 1, _end(lines, number) - number


def _end(lines: list[str], start: int) -> int:
    """The number of the first line that isn't the function's any more."""
    depth = _depth(lines[start])
    for number in range(start + 1, len(lines)):
        line = lines[number].strip()
        if line and _depth(lines[number]) <= depth:
            if line.startswith(("}", "end")):
                return number + 1
            if not line.startswith(("{", ")")):  # Those go on with the function's head.
                return number
    return len(lines)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
