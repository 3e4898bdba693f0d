"""Style that matters is a test: short files, functions that fit a screen, silence with a reason."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.unit.house.source import SHIPPED, Module, Rule, findings, modules

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

LONG_FILES = {
    "service/stepwell/core/port.py": "the contract as one document: nearly all of it is docstrings",
    "drivers/stepwell_drivers/sql/schema.py": "the tables as one document: half of it says what they mean",
}
"""Path below the top → why it is one thought all the same."""

_SILENCER = re.compile(r"#\s*(noqa|type:\s*ignore|pyright:\s*(?:ignore|basic|strict=false|\w+=))")
# The rule by name, then its reason.
_WITH_REASON = re.compile(
    r"#\s*(?:noqa:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*"
    r"|(?:type|pyright):\s*ignore\[[\w, -]+\]"
    r"|pyright:\s*\w+=\w+)"
    r"\s*[-–—:#(]+\s*\w+\W+\w+"
)


def long_files(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the length of a file above the limit."""
    lines = len(module.text.splitlines())
    if lines > FILE_LINES_MAX:
        yield lines, "the file is too long"


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the function without its docstring: prose is no complexity."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def long_functions(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the functions above the limit."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = function_lines(node)
            if lines > FUNCTION_LINES_MAX:
                yield node.lineno, f"{node.name} has {lines} lines"


def bare_silencers(module: Module) -> Iterator[tuple[int, str]]:
    """Yield comments that silence a checker and don't say why (strings are left alone)."""
    if _SILENCER.search(module.text):
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            silences = token.type == tokenize.COMMENT and _SILENCER.search(token.string)
            if silences and not _WITH_REASON.search(token.string):
                yield token.start[0], token.string


def code_in_faces(module: Module) -> Iterator[tuple[int, str]]:
    """Yield functions and classes of `__init__` files, which re-export or only describe."""
    if module.is_package and module.path.startswith(SHIPPED):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.lineno, f"{node.name} belongs in a module of its own"


@pytest.mark.parametrize("rule", [long_functions, bare_silencers, code_in_faces])
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    assert findings(rule, modules()) == []


def test_files_are_one_thought_and_no_excuse_outlives_its_need() -> None:
    assert {line.split(":")[0] for line in findings(long_files, modules())} == LONG_FILES.keys()


PROSE = '    """One.\n' + "    two\n" * 60 + '    """\n'


@pytest.mark.parametrize(
    ("rule", "source", "count"),
    [
        (long_files, "x = 1\n" * 501, 1),
        (long_functions, "async def f():\n" + "    x = 1\n" * 70, 1),
        (long_functions, f"def f():\n{PROSE}    return 1\n", 0),
        (bare_silencers, "a = 1  # noqa\n", 1),
        (bare_silencers, "a = 1  # noqa: S608\n", 1),
        (bare_silencers, "a = 1  # type: ignore[attr]\n", 1),
        (bare_silencers, "a = 1  # pyright: ignore[reportAny] - why\n", 1),
        (bare_silencers, "a = '# noqa'\n", 0),
        (code_in_faces, "x = 1\nasync def f(): ...", 1),
    ],
)
def test_the_rule_bites(rule: Rule, source: str, count: int) -> None:
    assert len(findings(rule, [Module("service/a/__init__.py", source)])) == count
