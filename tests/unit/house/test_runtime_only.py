"""Clock, ids, chance, spawning and sleeping come from Runtime: a simulation must hold them all.

One module a distribution implements it, and so does the simulator; every other is refused the
originals. `asyncio.timeout` and `wait_for` stay allowed: they count on the event loop's clock, which a
simulation brings itself.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.unit.house.source import SOURCE_ROOTS, Module, read_modules, write_tree

IMPLEMENTATIONS = {
    "stepwell.runtime",
    "stepwell_client._runtime",
}

# Names as the standard library has them; a whole module is refused with ".*".
REFUSED = {
    "time.*",
    "random.*",
    "secrets.*",
    "uuid.uuid1",
    "uuid.uuid4",
    "os.urandom",
    "os.getrandom",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "asyncio.create_task",
    "asyncio.ensure_future",
    "asyncio.sleep",
    "asyncio.TaskGroup",
}
# Methods of event loops and task groups, whatever the object is called.
REFUSED_METHODS = {"create_task", "call_later", "call_at"}
MODULES = {"time", "random", "secrets", "uuid", "os", "datetime", "asyncio"}


def is_refused(name: str) -> bool:
    """Return whether a full dotted name is an original that Runtime stands for."""
    return name in REFUSED or f"{name.partition('.')[0]}.*" in REFUSED


def local_names(tree: ast.Module) -> dict[str, str]:
    """Return the full name of each imported local name, for the modules in question."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES:
                    names[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def uses(module: Module) -> list[str]:
    """Each use of a refused name in a module, one line each."""
    names = local_names(module.tree)
    found: set[tuple[int, str]] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if not node.level and is_refused(full):
                    found.add((node.lineno, full))
        elif isinstance(node, ast.Attribute):
            head, _, rest = ast.unparse(node).partition(".")
            full = f"{names[head]}.{rest}" if head in names else ""
            if full and is_refused(full):
                found.add((node.lineno, full))
        elif isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if method in REFUSED_METHODS:
                found.add((node.lineno, f"….{method}"))
    # A call like asyncio.create_task is one finding, not two.
    named = {line for line, name in found if not name.startswith("…")}
    return [
        f"{module.name}:{line}: {name} is Runtime's"
        for line, name in sorted(found)
        if not (name.startswith("…") and line in named)
    ]


def violations(*roots: Path) -> list[str]:
    """Every use outside the implementations, one line each."""
    modules = read_modules(*roots)
    return [
        line
        for name, module in modules.items()
        if name not in IMPLEMENTATIONS
        for line in uses(module)
    ]


def test_only_the_runtime_touches_clock_chance_and_tasks() -> None:
    assert violations(*SOURCE_ROOTS) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.monotonic()",
        "import time as t\nt.sleep(1)",
        "from time import monotonic",
        "import time\nclock = time.time",
        "import random\nrandom.Random(1)",
        "import secrets\nsecrets.token_hex()",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid1",
        "import os\nos.urandom(8)",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now()",
        "from datetime import datetime as d\nd.utcnow()",
        "import asyncio\nasyncio.create_task(x())",
        "import asyncio\nasyncio.ensure_future(x())",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        "def f(loop): loop.create_task(x())",
        "def f(loop): loop.call_later(1, x)",
    ],
)
def test_each_original_is_refused(tmp_path: Path, source: str) -> None:
    write_tree(tmp_path, {"stepwell/executor.py": source})

    assert len(violations(tmp_path)) == 1
