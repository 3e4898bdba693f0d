r"""Regular expressions of JSON schemas, matched by RE2 in a time proportional to the text.

Python's own engine backtracks: it can take years for `(a+)+$`, and holds the interpreter's lock
meanwhile. RE2 refuses patterns that it can't match in one pass, such as back references or
look-around, at compilation. As in JSON schemas, a pattern may match anywhere in the text, `$` is
its very end, and `\d` and `\w` are ASCII.
"""

from __future__ import annotations

from typing import Protocol

import re2

from stepwell.schemas.effort import Effort

CHARS_MAX = 1_000
_MEMORY_BYTES_MAX = 512 * 1024
"""The memory of one compiled pattern with its caches."""
_CACHED_MAX = 64
_INSTRUCTIONS_PER_STEP = 20
"""The instructions that are compiled in the time of one step."""
_VISITS_PER_STEP = 500
"""Pairs of an instruction and a byte of text that are matched in the time of one step, at worst."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = _MEMORY_BYTES_MAX


class _Pattern(Protocol):
    """A pattern that RE2 has compiled."""

    @property
    def programsize(self) -> int: ...
    def search(self, text: bytes) -> object: ...


_compiled: dict[str, _Pattern] = {}


class PatternError(ValueError):
    """The pattern is malformed or not supported; the message says why."""


def check_pattern(source: str, effort: Effort) -> None:
    """Compile a pattern, and remember it.

    Raises:
        PatternError: it is malformed or not supported.
        TooLong: there are too few steps left to compile it.
    """
    _compile(source, effort)


def matches(source: str, text: str, effort: Effort) -> bool:
    """Return whether the pattern matches anywhere in the text.

    Raises:
        PatternError: the pattern is malformed or not supported.
        TooLong: there are too few steps left.
    """
    pattern = _compile(source, effort)
    data = text.encode("utf-8", "surrogatepass")  # JSON can contain half of a surrogate pair.
    effort.spend(1 + len(data) * pattern.programsize // _VISITS_PER_STEP)
    return pattern.search(data) is not None


def _compile(source: str, effort: Effort) -> _Pattern:
    known = _compiled.get(source)
    if known is not None:
        return known
    if len(source) > CHARS_MAX:
        raise PatternError(f"a pattern has at most {CHARS_MAX:,} characters")
    effort.spend(len(source))
    try:
        pattern = re2.compile(source.encode("utf-8", "surrogatepass"), _OPTIONS)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace")
        raise PatternError(
            f"{source[:80]!r} is no pattern, or not supported (see RE2): {reason}"
        ) from None
    effort.spend(pattern.programsize // _INSTRUCTIONS_PER_STEP)
    if len(_compiled) >= _CACHED_MAX:
        _compiled.clear()
    _compiled[source] = pattern
    return pattern
