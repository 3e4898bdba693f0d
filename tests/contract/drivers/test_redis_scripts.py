"""Scripts touch only keys that they were given: a cluster routes by them."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

FOLDER = files("stepwell_drivers.redis") / "lua"
SCRIPTS = {
    path.name: path.read_text(encoding="utf-8")
    for path in FOLDER.iterdir()
    if path.name.endswith(".lua")
}
_DECLARED = re.compile(r"(?:local ([\w,\s]+?)|([\w, ]+))\s*=\s*unpack\(KEYS\b")
_ONE = re.compile(r"local (\w+) = KEYS\[1\]")
_CALLS = re.compile(r"(?:redis\.call|many)\(\s*'[A-Z]+',\s*([^,)]+)")
_HELPERS = re.compile(r"(?:pick|look|look_up|keep_entries|forget_entries|has_forks)\(\s*([^,)]+)")
_PARAMETERS = {"key", "book", "time.book", "lists"}
"""Parameters of helpers, which are called with what was declared."""


def declared(source: str) -> set[str]:
    """The names that a script gives to its keys."""
    found = [one or other for one, other in _DECLARED.findall(source)]
    names = [name for some in found for name in re.split(r",\s*", some.strip())]
    return {*names, *_ONE.findall(source)}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_key_that_a_script_touches_was_declared(name: str) -> None:
    source = SCRIPTS[name]
    allowed = declared(source) | _PARAMETERS
    touched = {*_CALLS.findall(source), *_HELPERS.findall(source)} - {"'TIME'"}
    # `redis.call(command, key` stands in `many` alone.
    assert {key for key in touched if key not in allowed} == set()
    assert declared(source) or name in {"entries.lua", "prelude.lua", "wall.lua"}
