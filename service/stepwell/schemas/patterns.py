r"""Regular expressions that take a time proportional to the text, whoever wrote them.

Python's own engine tries one way after the other and can take years for `(a+)+$`, without ever letting
go of the interpreter. Here all ways are followed at once, a character at a time. What can't be followed
so (back references, assertions about what comes before or after) is refused when the pattern is read.

The words are those of ECMA 262, which JSON schemas use: a pattern may match anywhere, `$` is the very
end, `\d` and `\w` are ASCII.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

from stepwell.schemas.effort import Effort

# Python's own reader of patterns: all that is used of it is the tree that it makes.
ops: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

CHARS_MAX = 1_000
STATES_MAX = 2_000
_REMEMBERED_MAX = 5_000
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_DIGITS = frozenset("0123456789")

Test = Callable[[str], bool]


class PatternError(ValueError):
    """It is no pattern, or none that is taken here; the message says why."""


class _Place(NamedTuple):
    """Where the text is looked at."""

    at_start: bool
    at_end: bool
    at_boundary: bool


class _Node:
    """A state: it takes a character, or leads on without one."""

    __slots__ = ("holds", "nexts", "test")

    def __init__(self, test: Test | None = None) -> None:
        self.test = test
        self.nexts: list[int] = []
        self.holds: Callable[[_Place], bool] | None = None


class Pattern:
    """A pattern that was read."""

    def __init__(self, source: str) -> None:
        """Read it.

        Raises:
            PatternError: it is none that is taken here.
        """
        if len(source) > CHARS_MAX:
            raise PatternError(f"a pattern has at most {CHARS_MAX:,} characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # Of what may mean another thing one day, in Python.
                tree: Any = parser.parse(source)
        except (re.error, RecursionError, OverflowError) as error:
            raise PatternError(f"{source[:80]!r} is no pattern: {error}") from None
        if tree.state.flags & ~re.UNICODE:
            raise PatternError("flags within a pattern are not taken")
        self._nodes: list[_Node] = []
        self._start = self._add()
        self._end = self._sequence(tree, self._start)
        self._remembered: dict[tuple[frozenset[int], str, _Place], frozenset[int]] = {}

    # --- reading --------------------------------------------------------------------------------------

    def _add(self, test: Test | None = None) -> int:
        if len(self._nodes) >= STATES_MAX:
            raise PatternError(
                f"the pattern is too large: its repetitions make {STATES_MAX:,} states"
            )
        self._nodes.append(_Node(test))
        return len(self._nodes) - 1

    def _link(self, source: int, target: int) -> None:
        self._nodes[source].nexts.append(target)

    def _sequence(self, items: Iterable[Any], start: int) -> int:
        """Put parts one behind the other; returns where they end."""
        for op, value in items:
            start = self._part(op, value, start)
        return start

    def _part(self, op: Any, value: Any, start: int) -> int:
        if op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
            taking = self._add(_test_of(op, value))
            self._link(start, taking)
            end = self._add()
            self._link(taking, end)
            return end
        if op is ops.AT:
            end = self._add()
            self._nodes[end].holds = _holds(value)
            self._link(start, end)
            return end
        if op is ops.SUBPATTERN:
            _, add_flags, del_flags, items = value
            if add_flags or del_flags:
                raise PatternError("flags within a pattern are not taken")
            return self._sequence(items, start)
        if op is ops.BRANCH:
            end = self._add()
            for items in value[1]:
                self._link(self._sequence(items, self._fork(start)), end)
            return end
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            least, most, items = value
            return self._repeat(least, most, items, start)
        raise PatternError(f"{str(op).lower()} is not taken in a pattern")

    def _fork(self, start: int) -> int:
        branch = self._add()
        self._link(start, branch)
        return branch

    def _repeat(self, least: int, most: Any, items: Any, start: int) -> int:
        for _ in range(least):
            start = self._sequence(items, self._fork(start))
        end = self._add()
        if most is ops.MAXREPEAT:
            around = self._fork(start)
            self._link(around, end)
            self._link(self._sequence(items, self._fork(around)), around)
            return end
        self._link(start, end)
        for _ in range(most - least):
            start = self._sequence(items, self._fork(start))
            self._link(start, end)
        return end

    # --- looking --------------------------------------------------------------------------------------

    def is_in(self, text: str, effort: Effort) -> bool:
        """Tell whether it matches anywhere in the text.

        Raises:
            TooLong: that takes more steps than are left.
        """
        ways = self._closure({self._start}, _place(text, 0), effort)
        for index, char in enumerate(text):
            if self._end in ways:
                return True
            effort.spend()
            place = _place(text, index + 1)
            key = (ways, char, place)
            after = self._remembered.get(key)
            if after is None:
                after = self._after(ways, char, place, effort)
                if len(self._remembered) < _REMEMBERED_MAX:
                    self._remembered[key] = after
            ways = after
        return self._end in ways

    def _after(
        self, ways: frozenset[int], char: str, place: _Place, effort: Effort
    ) -> frozenset[int]:
        """Return where the ways lead with a character; each place may begin a match, too."""
        effort.spend(len(ways))
        reached = {self._start}
        for way in ways:
            node = self._nodes[way]
            if node.test is not None and node.test(char):
                reached.update(node.nexts)
        return self._closure(reached, place, effort)

    def _closure(self, reached: set[int], place: _Place, effort: Effort) -> frozenset[int]:
        """Return these states and all that are to be had from them without a character."""
        found: set[int] = set()
        waiting = list(reached)
        while waiting:
            way = waiting.pop()
            node = self._nodes[way]
            if way in found or (node.holds is not None and not node.holds(place)):
                continue
            effort.spend()
            found.add(way)
            if node.test is None:
                waiting.extend(node.nexts)
        return frozenset(found)


def _place(text: str, index: int) -> _Place:
    before = index > 0 and text[index - 1] in _WORD
    behind = index < len(text) and text[index] in _WORD
    return _Place(index == 0, index == len(text), before is not behind)


def _holds(where: Any) -> Callable[[_Place], bool]:
    found: dict[Any, Callable[[_Place], bool]] = {
        ops.AT_BEGINNING: lambda place: place.at_start,
        ops.AT_BEGINNING_STRING: lambda place: place.at_start,
        ops.AT_END: lambda place: place.at_end,
        ops.AT_END_STRING: lambda place: place.at_end,
        ops.AT_BOUNDARY: lambda place: place.at_boundary,
        ops.AT_NON_BOUNDARY: lambda place: not place.at_boundary,
    }
    return found[where]


def _test_of(op: Any, value: Any) -> Test:
    """Return what tells whether a character is taken."""
    if op is ops.ANY:
        return lambda char: char not in "\n\r\u2028\u2029"
    if op is ops.LITERAL:
        literal = chr(value)
        return lambda char: char == literal
    if op is ops.NOT_LITERAL:
        literal = chr(value)
        return lambda char: char != literal
    if op is ops.CATEGORY:
        return _CATEGORIES[value]
    if op is ops.RANGE:
        low, high = map(chr, value)
        return lambda char: low <= char <= high
    negated = bool(value) and value[0][0] is ops.NEGATE
    tests = [_test_of(*one) for one in value if one[0] is not ops.NEGATE]
    return lambda char: any(test(char) for test in tests) is not negated


_CATEGORIES: dict[Any, Test] = {
    ops.CATEGORY_DIGIT: lambda char: char in _DIGITS,
    ops.CATEGORY_NOT_DIGIT: lambda char: char not in _DIGITS,
    ops.CATEGORY_WORD: lambda char: char in _WORD,
    ops.CATEGORY_NOT_WORD: lambda char: char not in _WORD,
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
}
