"""Style that matters is a test: short files, functions that fit a screen, silence with a reason."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.unit.house.source import TOP, python_files, write_tree

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# Path below the top → why it is one thought all the same.
LONG_FILES: dict[str, str] = {
    "service/stepwell/core/port.py": "the contract as one document: nearly all of it is docstrings",
}
# "path::function" → why it is not split.
LONG_FUNCTIONS: dict[str, str] = {}

FOLDERS = (
    "service",
    "drivers",
    "clients/python",
    "testkit",
    "scripts",
    "tests",
    "bench",
    "examples",
)
SHIPPED = ("service/", "drivers/", "clients/python/", "testkit/")
GENERATED = "clients/python/stepwell_client/v1/"

_SILENCER = re.compile(r"#\s*(noqa|type:\s*ignore|pyright:\s*(?:ignore|basic|strict=false|\w+=))")
# The rule by name, then its reason: `
_WITH_REASON = re.compile(
    r"#\s*(?:noqa:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*"
    r"|(?:type|pyright):\s*ignore\[[\w, -]+\]"
    r"|pyright:\s*\w+=\w+)"
    r"\s*[-–—:#(]+\s*\w+\W+\w+"
)


def sources(top: Path) -> Iterator[tuple[str, str]]:
    """Path below the top, and text, of every hand-written Python file."""
    for path in python_files(*(top / folder for folder in FOLDERS if (top / folder).is_dir())):
        name = path.relative_to(top).as_posix()
        if not name.startswith(GENERATED):
            yield name, path.read_text(encoding="utf-8")


def long_files(top: Path, excused: dict[str, str]) -> list[str]:
    """Files above the limit without an excuse."""
    return [
        f"{name}: {len(text.splitlines())} lines"
        for name, text in sources(top)
        if len(text.splitlines()) > FILE_LINES_MAX and name not in excused
    ]


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the function without its docstring: prose is no complexity."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def long_functions(top: Path, excused: dict[str, str]) -> list[str]:
    """Functions above the limit without an excuse."""
    return [
        f"{name}::{node.name}: {function_lines(node)} lines"
        for name, text in sources(top)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and function_lines(node) > FUNCTION_LINES_MAX
        and f"{name}::{node.name}" not in excused
    ]


def bare_silencers(top: Path) -> list[str]:
    """Comments that silence a checker and don't say why (strings are left alone)."""
    return [
        f"{name}:{token.start[0]}: {token.string}"
        for name, text in sources(top)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
        and _SILENCER.search(token.string)
        and not _WITH_REASON.search(token.string)
    ]


def code_in_faces(top: Path) -> list[str]:
    """Return the functions and classes that `__init__` files define: they re-export, or only describe."""
    return [
        f"{name}:{node.lineno}: {node.name} belongs in a module of its own"
        for name, text in sources(top)
        if name.startswith(SHIPPED) and name.endswith("/__init__.py")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def test_files_are_one_thought() -> None:
    assert long_files(TOP, LONG_FILES) == []


def test_functions_fit_a_screen() -> None:
    assert long_functions(TOP, LONG_FUNCTIONS) == []


def test_every_silenced_rule_carries_its_reason() -> None:
    assert bare_silencers(TOP) == []


def test_no_excuse_outlives_its_need() -> None:
    needed = {line.rpartition(": ")[0] for line in long_files(TOP, {}) + long_functions(TOP, {})}
    assert sorted((LONG_FILES.keys() | LONG_FUNCTIONS.keys()) - needed) == []


def test_a_long_file_is_caught_and_may_be_excused(tmp_path: Path) -> None:
    write_tree(tmp_path, {"service/a.py": "x = 1\n" * 501, "service/b.py": "x = 1\n" * 500})

    assert long_files(tmp_path, {}) == ["service/a.py: 501 lines"]
    assert long_files(tmp_path, {"service/a.py": "one table"}) == []


def test_a_long_function_is_caught_and_its_docstring_does_not_count(tmp_path: Path) -> None:
    body = "    x = 1\n" * 70
    prose = '    """One.\n' + "    two\n" * 60 + '    """\n'
    write_tree(
        tmp_path,
        {"drivers/a.py": f"async def f():\n{body}\n\ndef g():\n{prose}    return 1\n"},
    )

    assert long_functions(tmp_path, {}) == ["drivers/a.py::f: 71 lines"]
    assert long_functions(tmp_path, {"drivers/a.py::f": "one table"}) == []


def test_a_bare_silencer_is_caught(tmp_path: Path) -> None:
    bare = [
        "a = 1  # noqa",
        "a = 1  # noqa: S608",
        "a = 1  # type: ignore",
        "a = 1  # type: ignore[attr]",
        "a = 1  # pyright: ignore[reportAny]",
        "a = 1  # pyright: ignore[reportAny] - why",
    ]
    fine = [
        "a = 1  # noqa: S608 - the table's name is a constant",
        "a = 1  # noqa: S608, E501 - two rules, one reason",
        "a = 1  # pyright: ignore[reportAny] - untyped library",
        "a = '# noqa'",
    ]
    write_tree(tmp_path, {"service/a.py": "\n".join(bare + fine) + "\n"})

    assert [line.split(":")[1] for line in bare_silencers(tmp_path)] == list("123456")


def test_no_init_file_holds_code() -> None:
    assert code_in_faces(TOP) == []


def test_code_in_an_init_file_is_caught(tmp_path: Path) -> None:
    write_tree(tmp_path, {"service/a/__init__.py": "x = 1\nasync def f(): ..."})
    write_tree(tmp_path, {"service/a/b.py": "def f(): ..."})

    assert len(code_in_faces(tmp_path)) == 1
