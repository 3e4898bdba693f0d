"""The weight of each room in lines of code: a commit that makes a room grow changes the table.

Its message says what was weighed against the growth. A room that shrank has its number lowered, so that
what was won isn't lost again unseen.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterable

from tests.unit.house.source import SHIPPED, Module, modules

SLACK = 60
"""Lines by which a room may be below its number before the number is lowered."""
BUDGET = {
    "bench": 2_797,
    "clients/frameworks/stepwell_frameworks": 1_976,
    "clients/python/stepwell_client": 9_911,
    "drivers/stepwell_drivers": 117,
    "drivers/stepwell_drivers/memory": 1_327,
    "drivers/stepwell_drivers/redis": 3_289,
    "drivers/stepwell_drivers/remote": 642,
    "drivers/stepwell_drivers/sql": 6_998,
    "examples": 2_779,
    "scripts": 2_294,
    "service/stepwell": 306,
    "service/stepwell/app": 1_117,
    "service/stepwell/cli": 6_122,
    "service/stepwell/console": 1_084,
    "service/stepwell/core": 8_868,
    "service/stepwell/embedded": 1_884,
    "service/stepwell/engine": 4_533,
    "service/stepwell/rpc": 4_748,
    "service/stepwell/schemas": 400,
    "service/stepwell/store": 123,
    "service/stepwell/watch": 727,
    "service/stepwell/wire": 568,
    "testkit/stepwell_testkit": 240,
    "testkit/stepwell_testkit/conformance": 6_805,
    "testkit/stepwell_testkit/environment": 471,
    "tests": 29,
    "tests/bench": 226,
    "tests/chaos": 8_124,
    "tests/contract": 6_448,
    "tests/docs": 1_971,
    "tests/frameworks": 4_342,
    "tests/mutants": 1_146,
    "tests/service": 14_888,
    "tests/simulation": 6_125,
    "tests/support": 2_940,
    "tests/unit": 20_033,
}
"""Lines of code by room. Goals: client and frameworks 9,000 together, service 24,500, drivers 12,300, tests and kit 57,000."""
_NO_CODE = frozenset(
    {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    }
)


def code_lines(module: Module) -> int:
    """Return the number of a module's lines without blanks, comments and docstrings."""
    words: set[int] = set()
    for node in ast.walk(module.tree):
        match node:
            case ast.Expr(ast.Constant(str())):
                words.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case _:
                pass
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - words)


def room_of(path: str) -> str:
    """Return the room of a file: a folder of a shipped package, or a folder of the tests."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 3 if path.startswith(SHIPPED) else 2 if folders[0] == "tests" else 1])


def weigh(among: Iterable[Module]) -> dict[str, int]:
    """Return the lines of code of each room."""
    rooms: Counter[str] = Counter()
    for module in among:
        rooms[room_of(module.path)] += code_lines(module)
    return dict(sorted(rooms.items()))


def test_no_room_outgrows_its_budget_unseen() -> None:
    rooms = weigh(modules())
    grown = {
        room: f"{lines} lines; the table has {BUDGET.get(room, 0)}"
        for room, lines in rooms.items()
        if lines > BUDGET.get(room, 0)
    }
    assert not grown, (
        "shorten it, or raise its number and say in the commit what it was weighed against"
    )


def test_budget_follows_a_room_that_shrank() -> None:
    rooms = weigh(modules())
    slack = {room: lines - rooms.get(room, 0) for room, lines in BUDGET.items()}
    assert {room: spare for room, spare in slack.items() if spare > SLACK} == {}


def test_only_lines_of_code_count() -> None:
    text = '"""Docs\\n\\nmore."""\\n\\n# why\\nx = (\\n    1,\\n)\\n\\ndef f():\\n    """Return."""\\n    return """a\\nb"""\\n'
    assert code_lines(Module("service/a.py", text.encode().decode("unicode_escape"))) == 6
