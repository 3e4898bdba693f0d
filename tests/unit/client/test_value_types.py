"""Values of annotated types come back equal and of their type, or are refused with the path of what doesn't."""

from __future__ import annotations

import collections
import datetime
import decimal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, SecretStr

from stepwell_client import TaskContext, decode, encode
from stepwell_client.records.payloads import encode_as, flaw_of
from tests.support.journal import Crash, JournaledStep, crashed, result_of
from tests.support.value_types import (
    DAY,
    MOMENT,
    NAN,
    SOME_ID,
    ZONE,
    Apart,
    Blob,
    Box,
    Camel,
    Cat,
    Colour,
    Derived,
    Dog,
    Envelope,
    Hidden,
    Item,
    ItemPage,
    Lost,
    Mail,
    Meeting,
    Mixed,
    Mode,
    Order,
    Page,
    Point,
    Positive,
    Private,
    Reply,
    Rights,
    Scores,
    Seeded,
    Settings,
    Slots,
    Strict,
    Unknown,
    Unmakeable,
    Zoo,
    written,
)


def counted(n: int) -> Private:
    made = Private(n=1)
    made._count = n
    return made


KEPT: list[tuple[Any, Any]] = [
    (Mail, Mail(**{"from": "a", "replyTo": "b"})),
    (Camel, Camel.model_validate({"replyTo": "b"})),
    (Apart, Apart.model_validate({"written": "a", "toRead": ["b"]})),
    (Settings, Settings(key=SecretStr("very secret"))),
    (list[Settings], [Settings(key=SecretStr("very secret"))]),
    (SecretStr, SecretStr("very secret")),
    (Scores, Scores()),
    (Hidden, Hidden.model_validate({"shown": 1})),
    (Private, Private(n=1)),
    (Blob, Blob(data=b"text")),
    (
        Order,
        Order(
            state=Order.State.OPEN,
            at=MOMENT.replace(tzinfo=datetime.UTC),
            tags=frozenset({3, 1}),
            prices={SOME_ID: decimal.Decimal("1.10")},
            span=-datetime.timedelta(microseconds=1),
            path=Path("a/b"),
        ),
    ),
    (Box[int], Box[int](thing=1)),
    (Cat | Dog, Dog(n=1)),
    (Annotated[Cat | Dog, Field(discriminator="kind")], Dog(n=1)),
    (Zoo, Zoo(pet=Dog(n=1))),
    (list[Strict], [Strict(at=MOMENT, numbers=(1,))]),
    (Page[Item], Page([Item(1)], Item(2))),
    (list[Page[Item]], [Page([Item(1)])]),
    (Page[Page[Item]], Page([Page([Item(1)])])),
    (ItemPage, ItemPage([Item(1)])),
    (Slots, Slots(1)),
    (Seeded, Seeded(1, 7)),
    (Positive, Positive(1)),
    (Mixed, Mixed(SecretStr("s"), {1: "a"}, NAN, b"\xff", [1, None])),
    (Point, Point(1, b"\xff", DAY)),
    (Meeting, {"day": DAY}),
    (Meeting, {"day": DAY, "room": None}),
    (Colour, Colour.PAIR),
    (dict[Colour, int], {Colour.RED: 1, Colour.PAIR: 2}),
    (Literal["a", Colour.RED], Colour.RED),
    (Rights, Rights.READ | Rights.WRITE),
    (dict[int, str], {1: "a"}),
    (dict[tuple[int, str], int], {(1, "a"): 2}),
    (dict[int | None, int], {None: 1, 2: 3}),
    (float | int, 3),
    (float | int, 3.0),
    (datetime.datetime | datetime.date, DAY),
    (datetime.datetime | datetime.date, MOMENT),
    (uuid.UUID | str, SOME_ID),
    (uuid.UUID | str, "another text"),
    (decimal.Decimal | float, 1.5),
    (decimal.Decimal | float, decimal.Decimal("1.50")),
    (datetime.timedelta, datetime.timedelta.min),
    (datetime.timedelta, datetime.timedelta.max),
    (collections.Counter[str], collections.Counter("aab")),
    (collections.deque[int], collections.deque([1, 2])),
    (
        collections.defaultdict[str, list[int]],
        collections.defaultdict[str, list[int]](list, {"a": [1]}),
    ),
    (datetime.datetime, MOMENT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-3)))),
    (bytes | None, b"\xff"),
    (bytearray, bytearray(b"\xff")),
    (str | bytes, b"\xff"),
    (list[bytes], [b"\xff"]),
    (float | str, NAN),
    (int, 2**70),
    (str, "\udcff"),
    (Any, {"a": [1, 2.5, None, True]}),
]


@pytest.mark.parametrize(("annotation", "value"), KEPT, ids=repr)
def test_value_comes_back_equal_and_of_its_type(annotation: Any, value: Any) -> None:
    payload, back = encode_as(value, annotation)

    assert flaw_of(annotation) is None
    assert written(back) == written(decode(payload, annotation)) == written(value)
    if annotation not in (list[bytes], float | str):  # Which only a type makes safe.
        assert written(decode(encode(value), annotation)) == written(value)


def test_secret_is_itself_after_it_was_kept_not_its_mask() -> None:
    _, back = encode_as(Settings(key=SecretStr("very secret")), Settings)
    assert back.key.get_secret_value() == "very secret"
    assert back.raw.get_secret_value() == b"abc"


REFUSED: list[tuple[Any, Any, str]] = [
    (Mail, Reply(**{"from": "a"}), "$: Reply comes back as Mail"),
    (Envelope, Envelope(mail=Reply(**{"from": "a"})), "$.mail: Reply comes back as Mail"),
    (Item, Derived(1), "$.more: "),
    (Hidden, Hidden(hidden="another"), "$.hidden: "),
    (list[Hidden], [Hidden(hidden="as it was"), Hidden(hidden="another")], "$[1].hidden: "),
    (Private, counted(7), "$._count: "),
    (Blob, Blob(data=b"\xff"), "$.data: "),
    (Mixed, Mixed(SecretStr("s"), {}, 0.0, b"", (1, 2)), "$.rest: tuple comes back as list"),
    (Page, Page([Item(1)]), "$.items[0]: Item comes back as dict"),
    (uuid.UUID | str, str(SOME_ID), "$: str comes back as UUID"),
    (list[uuid.UUID | str], [str(SOME_ID)], "$[0]: str comes back as UUID"),
    (str | uuid.UUID, SOME_ID, "$: UUID comes back as str"),
    (float | str, "NaN", "$: str comes back as float"),
    (dict[int | str, int], {1: 1, "1": 2}, "$: two keys"),
    (dict[int | str, int], {1: 1}, "$.1: int comes back as str"),
    (dict[str, Any], {"a": {"day": DAY}}, "$.a.day: date comes back as str"),
    (list, [[(1, 2)]], "$[0][0]: tuple comes back as list"),
    (list[int] | tuple[int, ...], (), "$: tuple comes back as list"),
    (list[list[int] | tuple[int, ...]], [(1,)], "$[0]: tuple comes back as list"),
    (Rights | Literal["a", 1], 1, "$: int comes back as Rights"),
    (list[list[int] | Any], [(1,)], "$[0]: tuple comes back as list"),
    (list[datetime.date | str], ("2026-01-02",), "$: tuple comes back as list"),
    (collections.defaultdict, collections.defaultdict(list, {"a": [1]}), "$: its default_factory"),
    (float, 2**53 + 1, "$: "),
    (int, True, "$: "),
    (int, "3", "$: "),
    (str, None, "$: "),
    (str, "\ud83d\ude00", "$: "),
    (datetime.datetime, MOMENT.replace(fold=1), "$: "),
    (Any, (1, 2), "$: tuple comes back as list"),
    (Any, DAY, "$: date comes back as str"),
    (Any, Mail(**{"from": "a"}), "$: Mail comes back as dict"),
    (Any, Item(1), "$: Item comes back as dict"),
    (Any, [Colour.RED], "$[0]: Colour comes back as str"),
    (Any, Mode.FAST, "$: Mode comes back as str"),
    (Any, {"a": {1: 2}}, "$.a.1: int comes back as str"),
    (Any, [NAN], "$[0]: "),
    (Any, {"data": b"\xff"}, "$.data: "),
]


@pytest.mark.parametrize(("annotation", "value", "why"), REFUSED, ids=repr)
def test_value_that_would_change_is_refused_with_its_path(
    annotation: Any, value: Any, why: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        encode_as(value, annotation)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("annotation", "value", "back"),
    [
        (Item, {"n": 1}, Item(1)),
        (Mail, {"from": "a"}, Mail(**{"from": "a"})),
        (Mail, {"sender": "a"}, Mail(**{"from": "a"})),
        (float, 3, 3.0),
        (tuple[Item, ...], [Item(1)], (Item(1),)),
        (list[int | str], (1, "a"), [1, "a"]),
        (dict[str, list[float | None] | str], {"a": (0.5,)}, {"a": [0.5]}),
        (dict[str, int], collections.Counter("aab"), {"a": 2, "b": 1}),
        (datetime.datetime, MOMENT.replace(tzinfo=ZONE, fold=1), None),
    ],
    ids=repr,
)
def test_annotation_decides_the_type_of_an_equal_value(
    annotation: Any, value: Any, back: Any
) -> None:
    _, kept = encode_as(value, annotation)
    if back is None:  # A zone is kept as its offset from UTC.
        assert (kept.isoformat(), kept.tzinfo) == (value.isoformat(), kept.tzinfo)
    else:
        assert (type(kept), kept) == (type(back), back)


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (Unknown, "$: "),
        (list[Unknown], "$[]: "),
        (Page[Unknown], "$.items[]: "),
        (complex, "$: "),
        (Iterator[int], "$: "),
        (Lost, "$.hidden: "),
        (Unmakeable, "$.seed: "),
    ],
)
async def test_function_of_a_type_that_no_value_comes_back_by_is_not_called(
    annotation: Any, why: str
) -> None:
    calls: list[str] = []

    def call() -> Any:
        calls.append("call")

    async def work(ctx: TaskContext) -> None:
        await ctx.call("make", call, as_=annotation)

    def direct(ctx: TaskContext) -> Any:
        calls.append("step")

    direct.__annotations__["return"] = annotation
    for function in (work, direct):
        failure = (await JournaledStep().attempt(function)).failed.failure
        assert (failure.kind, failure.retryable, calls) == ("INVALID_RESULT", False, [])
        assert why in failure.message


async def test_call_gives_each_attempt_the_value_that_its_function_returned() -> None:
    step, seen = JournaledStep(), list[Any]()

    async def work(ctx: TaskContext) -> None:
        for n, (annotation, value) in enumerate(KEPT):
            seen.append(
                await ctx.call("make", lambda value=value: value, key=str(n), as_=annotation)
            )
        if ctx.attempt == 1:
            raise Crash

    await crashed(step, work)
    await step.attempt(work)

    assert len(seen) == 2 * len(KEPT)
    for n, (_, value) in enumerate(KEPT):
        assert written(seen[n]) == written(seen[len(KEPT) + n]) == written(value)


async def test_step_keeps_what_its_annotation_reads_and_refuses_the_rest() -> None:
    def well(ctx: TaskContext) -> dict[int, Mail]:
        return {1: Mail(**{"from": "a"})}

    def badly(ctx: TaskContext) -> dict[str, Any]:
        return {"a": DAY}

    def silent(ctx: TaskContext):
        return (1, 2)

    assert result_of(await JournaledStep().attempt(well)) == {"1": {"from": "a", "replyTo": None}}
    for function, why in ((badly, "$.a: date"), (silent, "$: tuple")):
        failure = (await JournaledStep().attempt(function)).failed.failure
        assert failure.kind == "INVALID_RESULT"
        assert why in failure.message


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Hidden(hidden="another"), "$.hidden: "),
        ([Mixed(SecretStr("s"), {}, 0.0, b"", (1, 2))], "$[0].rest: "),
        ({"a": [NAN]}, "$.a[0]: "),
        ({"a": b"\xff"}, "$.a: "),
        ({1: 1, "1": 2}, "$: two keys"),
        ({"a": Unknown()}, "$.a: "),
    ],
    ids=repr,
)
def test_input_that_its_own_type_does_not_read_is_refused(value: Any, why: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        encode(value)
    assert str(caught.value).startswith(why)


def test_numbers_of_numpy_come_back_as_annotated_and_are_refused_without() -> None:
    numpy = pytest.importorskip("numpy")
    for annotation, value, back in (
        (float, numpy.float64(1.5), 1.5),
        (int, numpy.int64(3), 3),
        (bool, numpy.bool_(True), True),
        (list[float], [numpy.float32(0.5)], [0.5]),
    ):
        assert repr(encode_as(value, annotation)[1]) == repr(back)
        with pytest.raises(ValueError, match="comes back as"):
            encode_as(value, Any)


def test_codec_works_where_pydantic_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pydantic")
    for annotation, value in ((Point, Point(1, b"\xff")), (Page[Item], Page([Item(1)]))):
        payload, back = encode_as(value, annotation)
        assert back == decode(payload, annotation) == value
    with pytest.raises(ValueError, match="tuple comes back as list"):
        encode_as((1, 2), Any)
