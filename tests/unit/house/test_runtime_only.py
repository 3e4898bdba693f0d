"""Names that a part of the tree may not use: originals of Runtime, what is real, what is private.

Clock, ids, chance, spawning and sleeping come from Runtime: a simulation must hold them all.
`asyncio.timeout` and `wait_for` stay allowed: they count on the event loop's clock, which a simulation
brings itself. `tests/unit` starts no server and no process, opens no socket, and waits for no real time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.unit.house.source import DISTRIBUTIONS, Module, Rule, findings, modules

IMPLEMENTATIONS = {"service/stepwell/runtime.py", "clients/python/stepwell_client/link/runtime.py"}
"""One module a distribution implements Runtime; the simulator brings its own."""
ORIGINALS = (
    *("time", "random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"),
    *("datetime.date.today", "asyncio.sleep"),
    *("asyncio.create_task", "asyncio.ensure_future", "asyncio.TaskGroup"),
)
"""Names, with what lies below them, that Runtime stands for."""
SPAWNING = {"create_task", "call_later", "call_at"}
"""Methods of event loops and task groups, whatever the object is called."""
REAL = (
    *("socket", "subprocess", "multiprocessing", "grpc.aio", "time.sleep", "asyncio.sleep"),
    *("asyncio.create_subprocess_exec", "asyncio.open_connection"),
    *("asyncio.start_server", "asyncio.start_unix_server"),
    *("tests.service", "tests.contract", "tests.chaos", "tests.support.backends"),
)
"""Names, with what lies below them, that a unit test has no use for."""
CLIENT = "stepwell_client"
ROOMS = {"agent", "calls", "link", "records", "worker"}
"""Folders of the client. Other distributions import its face, or `stepwell_client.internal`."""


def imported(module: Module) -> Iterator[tuple[int, str, str]]:
    """Yield each absolute import: line, the name that it gives here, and its full name."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield node.lineno, alias.asname or alias.name, alias.name
            case ast.ImportFrom(module=str(base), names=names, level=0):
                for alias in names:
                    yield node.lineno, alias.asname or alias.name, f"{base}.{alias.name}"
            case _:
                pass


def used(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the full name of each import and of each attribute of something imported."""
    full: dict[str, str] = {}
    for line, name, whole in imported(module):
        top, below, _ = name.partition(".")
        full[top] = top if below else whole
        yield line, whole
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            head, _, rest = ast.unparse(node).partition(".")
            if head in full:
                yield node.lineno, f"{full[head]}.{rest}"


def among(names: tuple[str, ...], module: Module) -> Iterator[tuple[int, str]]:
    """Yield each use of these names or of what lies below them."""
    prefixes = tuple(f"{name}." for name in names)
    for line, name in used(module):
        if f"{name}.".startswith(prefixes):
            yield line, name


def originals(module: Module) -> Iterator[tuple[int, str]]:
    """Yield each use of an original that Runtime stands for."""
    if module.distribution and module.path not in IMPLEMENTATIONS:
        yield from among(ORIGINALS, module)
        for node in ast.walk(module.tree):
            match node:
                case ast.Call(func=ast.Attribute(attr=method)) if method in SPAWNING:
                    yield node.lineno, f"….{method}"
                case _:
                    pass


def real_things(module: Module) -> Iterator[tuple[int, str]]:
    """Yield what a unit test imports, starts or waits for that is real."""
    if module.path.startswith("tests/unit/"):
        turns = {
            node.lineno
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and ast.unparse(node) == "asyncio.sleep(0)"
        }
        for line, name in among(REAL, module):
            if name != "asyncio.sleep" or line not in turns:
                yield line, name


def private_names(module: Module) -> Iterator[tuple[int, str]]:
    """Yield imports of another distribution's names with an underscore, and of the client's rooms.

    Of its records only the modules are private: the room itself lists them for everybody.
    """
    for line, _, name in imported(module):
        top, *parts = name.split(".")
        private = any(part.startswith("_") and not part.endswith("__") for part in parts)
        is_record = len(parts) == 2 and parts[0] == "records" and not parts[1].islower()
        is_room = top == CLIENT and not is_record and not ROOMS.isdisjoint(parts[:1])
        private = private or bool(module.distribution and is_room)
        if private and top in DISTRIBUTIONS.values() and top != module.distribution:
            yield line, name


@pytest.mark.parametrize("rule", [originals, real_things, private_names])
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    assert findings(rule, modules()) == []


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        (originals, "service/stepwell/a.py", "import time as t\nt.sleep(1)"),
        (originals, "service/stepwell/a.py", "from time import monotonic"),
        (originals, "drivers/stepwell_drivers/a.py", "import uuid\nclock = uuid.uuid4"),
        (originals, "testkit/stepwell_testkit/a.py", "import datetime\ndatetime.datetime.now()"),
        (originals, "service/stepwell/a.py", "from datetime import datetime as d\nd.utcnow()"),
        (originals, "service/stepwell/a.py", "import asyncio\nasyncio.create_task(x())"),
        (originals, "service/stepwell/a.py", "def f(loop): loop.call_later(1, x)"),
        (real_things, "tests/unit/a.py", "import socket"),
        (real_things, "tests/unit/a.py", "from tests.service import conftest"),
        (real_things, "tests/unit/a.py", "import asyncio\nasyncio.sleep(0.01)"),
        (real_things, "tests/unit/a.py", "import asyncio\nasyncio.start_server(print)"),
        (private_names, "service/stepwell/a.py", "from stepwell_client.records.plans import draft"),
        (private_names, "service/stepwell/a.py", "from stepwell_client.records import plans"),
        (private_names, "service/stepwell/a.py", "from stepwell_client import Agent, _plans"),
        (private_names, "drivers/stepwell_drivers/a.py", "import stepwell.wire._codec"),
        (private_names, "tests/unit/a.py", "def f():\n    from stepwell.core import _x"),
    ],
)
def test_the_rule_bites(rule: Rule, path: str, source: str) -> None:
    assert findings(rule, [Module(path, source)])


@pytest.mark.parametrize("path", ["service/stepwell/a.py", "tests/unit/a.py"])
def test_what_is_allowed_passes(path: str) -> None:
    source = "import asyncio\nfrom stepwell.core import loop\nasyncio.timeout(1)"
    source += "\nfrom stepwell_client.records import Usage"
    for rule in (originals, real_things, private_names):
        assert findings(rule, [Module(path, source)]) == []
