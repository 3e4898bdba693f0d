"""`tests/unit` starts no server and no process, opens no socket, and waits for no real time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.house.source import TOP, python_files, write_tree

REFUSED = (
    *("socket", "subprocess", "multiprocessing", "grpc.aio"),
    *("tests.service", "tests.contract", "tests.chaos", "tests.support.backends"),
)
"""Modules, with what lies below them, that a unit test has no use for."""
SLEEPS = ("asyncio.sleep", "time.sleep")
STARTS = ("create_subprocess_exec", "start_server", "start_unix_server", "open_connection")


def impurities(folder: Path) -> list[str]:
    """Return file and line of each refused import, sleep and start of something real."""
    return [
        f"{path.relative_to(folder).as_posix()}:{line}: {why}"
        for path in python_files(folder)
        for line, why in _impurities(ast.parse(path.read_text(encoding="utf-8")))
    ]


def _impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                modules = [f"{module}.{alias.name}" for alias in names]
            case ast.Call(func=called):
                name = ast.unparse(called)
                zero = [ast.unparse(argument) for argument in node.args] == ["0"]
                if (name in SLEEPS and not zero) or name.endswith(STARTS):
                    yield node.lineno, f"calls {name}"
                continue
            case _:
                continue
        for name in modules:
            if any(f"{name}.".startswith(f"{module}.") for module in REFUSED):
                yield node.lineno, f"imports {name}"


def test_unit_tests_start_nothing_and_wait_for_no_real_time() -> None:
    assert impurities(TOP / "tests" / "unit") == []


def test_each_impurity_is_caught(tmp_path: Path) -> None:
    refused = [
        "import socket",
        "from tests.support.backends.shared import postgres_server",
        "from tests.service import conftest",
        "asyncio.sleep(0.01)",
        "time.sleep(seconds)",
        "asyncio.start_server(print)",
    ]
    allowed = ["import asyncio", "from tests.support import patience", "asyncio.sleep(0)"]
    write_tree(tmp_path, {"test_a.py": "\n".join(refused + allowed) + "\n"})

    assert [line.split(":")[1] for line in impurities(tmp_path)] == list("123456")
