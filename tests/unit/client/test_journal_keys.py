"""Keys of calls: equal for equal calls, and different for all others."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell_client import JournalError
from stepwell_client.agent.journal.keys import (
    KEY_CHARS_MAX,
    arguments_digest,
    counted_key,
    inner_prefix,
    newest_key,
    own_key,
    scope_prefix,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text("ab/#%1é\n", min_size=1, max_size=6)
# One step into the tree of a step's calls: a scope, a call that is counted, one with a key of its own.
PARTS = st.tuples(st.sampled_from(["scope", "counted", "own"]), NAMES)
PATHS = st.tuples(st.lists(PARTS, max_size=3), st.sampled_from(["counted", "own"]), NAMES)


def key_of(path: Any) -> str:
    """Return the key of a call at the end of a path."""
    parts, kind, name = path
    prefix = ""
    for part, part_name in parts:
        if part == "scope":
            prefix = scope_prefix(prefix, part_name)
        else:
            prefix = inner_prefix(_key(part, prefix, part_name), own_key=part == "own")
    return _key(kind, prefix, name)


def _key(kind: str, prefix: str, name: str) -> str:
    if kind == "own":
        return own_key(prefix, name)
    return counted_key(prefix, name, "0123456789abcdef", {}, [])


@given(PATHS, PATHS)
def test_calls_at_different_places_have_different_keys(one: Any, other: Any) -> None:
    assert (key_of(one) == key_of(other)) == (one == other)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.randoms())
def test_the_order_of_names_does_not_matter(named: dict[str, Any], random: Any) -> None:
    items = list(named.items())
    random.shuffle(items)
    assert arguments_digest((), named) == arguments_digest((), dict(items))


@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=3))
def test_different_arguments_have_different_digests(one: list[Any], other: list[Any]) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (arguments_digest(one, {}) == arguments_digest(other, {})) == same


class Model(pydantic.BaseModel):
    when: datetime.date


@dataclasses.dataclass
class Point:
    x: int


def test_values_with_a_json_form_have_a_digest_and_others_none() -> None:
    when = datetime.date(2026, 1, 2)
    digest = arguments_digest((Model(when=when), Point(1), {"k": when}), {})
    assert len(digest) == 16
    assert digest == arguments_digest(({"when": "2026-01-02"}, {"x": 1}, {"k": "2026-01-02"}), {})
    for value in (object(), {1: 1, "1": 2}):
        assert arguments_digest((value,), {}) == ""


@dataclasses.dataclass(frozen=True)
class Pair:
    numbers: frozenset[int]


class Numbers(pydantic.RootModel[set[int]]):
    pass


class Query(pydantic.BaseModel):
    numbers: set[int] = pydantic.Field(serialization_alias="given")
    groups: set[frozenset[int]]
    pairs: list[Pair]
    places: dict[str, Numbers]


def query(*numbers: int) -> Query:
    """Return a model of sets, whose order is that in which their members came: their hashes meet."""
    return Query(
        numbers=set(numbers),
        groups={frozenset(numbers), frozenset({1})},
        pairs=[Pair(frozenset(numbers))],
        places={"x": Numbers(set(numbers))},
    )


def test_the_order_of_sets_in_a_model_does_not_matter() -> None:
    one, other = query(8, 0), query(0, 8)
    assert one == other
    assert one.model_dump_json() != other.model_dump_json()
    assert arguments_digest([one], {}) == arguments_digest([other], {}) != ""
    assert arguments_digest([one], {}) != arguments_digest([query(0, 9)], {})


class Settings(pydantic.BaseModel):
    key: pydantic.SecretStr


def test_arguments_that_json_hides_or_lacks_have_digests_of_their_own() -> None:
    secrets = [Settings(key=pydantic.SecretStr(text)) for text in ("one", "another")]
    values = [*secrets, {1, 2}, {1, 3}, b"bytes", b"\xff", float("nan"), float("inf")]
    digests = [arguments_digest((value,), {}) for value in values]
    assert "" not in digests
    assert len(set(digests)) == len(values)


def test_readable_keys_stay_as_they_are() -> None:
    counts: dict[str, int] = {}
    keys = [counted_key("", "search", "9f3c", counts, []) for _ in range(2)]
    assert keys == ["search/9f3c#1", "search/9f3c#2"]
    assert own_key("reader/", "charge-17") == "reader/charge-17"


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_a_name_out_of_bounds_is_refused(name: str) -> None:
    with pytest.raises(JournalError):
        counted_key("", name, "9f3c", {}, [])
    with pytest.raises(JournalError):
        scope_prefix("", name)


def test_a_key_that_is_too_long_is_refused() -> None:
    assert own_key("", "x" * KEY_CHARS_MAX)
    with pytest.raises(JournalError, match="characters"):
        own_key("x/", "x" * (KEY_CHARS_MAX - 1))


def test_free_key_goes_to_the_next_call_of_its_name_and_arguments() -> None:
    counts: dict[str, int] = {}
    first, _ = (counted_key("", "search", "9f3c", counts, []) for _ in range(2))
    free = [first]
    assert newest_key("", "search", "0000", counts) == ""
    assert newest_key("", "search", "9f3c", counts) == "search/9f3c#2"
    assert counted_key("", "search", "0000", counts, free) == "search/0000#1"
    assert counted_key("", "search", "9f3c", counts, free) == first
    assert counted_key("", "search", "9f3c", counts, free) == "search/9f3c#3"
