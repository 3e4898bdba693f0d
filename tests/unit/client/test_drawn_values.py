"""Values of drawn types come back as they were, or are refused."""

from __future__ import annotations

import datetime
import decimal
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from stepwell_client import decode
from stepwell_client.records.payloads import encode_as, flaw_of
from tests.support.value_types import (
    Camel,
    Cat,
    Colour,
    Dog,
    Level,
    Meeting,
    Mode,
    Page,
    Point,
    Rights,
    Scores,
    Settings,
    Slots,
    Zoo,
    written,
)

LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats()),
    (bool, st.booleans()),
    (str, st.text(st.characters(exclude_categories=["Cs"]))),
    (bytes, st.binary(max_size=20)),
    (decimal.Decimal, st.decimals()),
    (uuid.UUID, st.uuids()),
    (datetime.datetime, st.datetimes().map(lambda moment: moment.replace(fold=0))),
    (datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC))),
    (datetime.date, st.dates()),
    (datetime.time, st.times().map(lambda time: time.replace(fold=0))),
    (datetime.timedelta, st.timedeltas()),
    (Path, st.sampled_from([Path("a/b"), Path("/c"), Path()])),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Mode, st.sampled_from(Mode)),
    (Rights, st.sampled_from([Rights.READ, Rights.READ | Rights.WRITE, Rights(0)])),
    (Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    (Slots, st.builds(Slots, st.integers())),
    (Point, st.builds(Point, st.integers(), st.binary(max_size=5), st.none() | st.dates())),
    (
        Meeting,
        st.fixed_dictionaries({"day": st.dates()}, optional={"room": st.none() | st.just("x")}),
    ),
    (Camel, st.builds(Camel, replyTo=st.none() | st.just("x"))),
    (Settings, st.builds(Settings, key=st.builds(SecretStr, st.just("s")))),
    (Scores, st.builds(Scores, score=st.none() | st.floats())),
    (Zoo, st.builds(Zoo, pet=st.builds(Cat, n=st.integers()) | st.builds(Dog, n=st.integers()))),
]
KEYS = [
    leaf for leaf in LEAVES if leaf[0] in (int, str, bool, uuid.UUID, datetime.date, Colour, bytes)
]


@dataclass
class Drawn:
    annotation: Any
    values: st.SearchStrategy[Any]

    def __repr__(self) -> str:
        return str(self.annotation)


def containers(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    def of(one: Drawn, key: tuple[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Drawn]:
        kind, values, (key_kind, keys) = one.annotation, one.values, key
        few = st.lists(values, max_size=3)
        return st.sampled_from(
            [
                Drawn(list[kind], few),
                Drawn(tuple[kind, ...], few.map(tuple)),
                Drawn(tuple[key_kind, kind], st.tuples(keys, values)),
                Drawn(kind | None, st.none() | values),
                Drawn(dict[key_kind, kind], st.dictionaries(keys, values, max_size=3)),
                Drawn(set[key_kind], st.sets(keys, max_size=3)),
                Drawn(frozenset[key_kind], st.frozensets(keys, max_size=3)),
                Drawn(Page[kind], st.builds(Page, few, st.none() | values)),
                Drawn(Annotated[kind, "a note"], values),
            ]
        )

    return st.tuples(inner, st.sampled_from(KEYS)).flatmap(lambda both: of(*both))


drawn = st.recursive(st.sampled_from([Drawn(*leaf) for leaf in LEAVES]), containers, max_leaves=4)


@settings(max_examples=60)
@given(st.data())
def test_drawn_value_of_a_drawn_type_comes_back_as_it_was(data: st.DataObject) -> None:
    one = data.draw(drawn)
    value = data.draw(one.values)

    payload, back = encode_as(value, one.annotation)

    assert flaw_of(one.annotation) is None
    assert written(back) == written(decode(payload, one.annotation)) == written(value)


@settings(max_examples=60)
@given(st.data())
def test_drawn_value_read_as_another_drawn_type_never_changes_unseen(data: st.DataObject) -> None:
    one, other = data.draw(drawn), data.draw(drawn)
    value = data.draw(one.values)
    annotation = other.annotation | one.annotation

    refusal, back = "", value
    try:
        payload, back = encode_as(value, annotation)
    except (TypeError, ValueError) as error:
        refusal = str(error)
    else:
        assert written(back) == written(decode(payload, annotation))

    assert refusal[:1] in ("", "$")
    assert written(back) == written(value) or (back == value and type(back) is not type(value))
