"""Schemas and answers of strangers: what fits, what is refused, and that no check takes long."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from stepwell.core.loop.occurrences import NeedsAnswer
from stepwell.core.records.limits import VIOLATIONS_MAX
from stepwell.core.records.model import Payload, Question
from stepwell.core.records.states import QuestionKind
from stepwell.schemas import answer_violations, question_violations
from stepwell.schemas.effort import Effort, TooLong
from stepwell.schemas.patterns import PatternError, check_pattern, matches


async def faults(schema: Any, value: Any, **request: Any) -> list[str]:
    """Return the paths at fault of an answer."""
    asked = Question(question_id="i", task_id="t", schema=json.dumps(schema), **request)
    found = await answer_violations(asked, Payload(data=json.dumps(value).encode()))
    return [one.field for one in found]


async def refused(schema: Any) -> str:
    """Return why a schema is refused, or ""."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    found = await question_violations(NeedsAnswer(prompt="?", schema=text))
    assert all(one.field == "needs_answer.schema" for one in found)
    return found[0].description if found else ""


# --- answers -------------------------------------------------------------------------------------------


async def test_faults_are_named_by_their_paths() -> None:
    schema = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"properties": {"name": {"type": "string"}}}},
            "two words": {"type": "integer"},
        },
        "required": ["items"],
        "additionalProperties": False,
    }
    assert await faults(schema, {"items": []}) == []
    assert await faults(schema, {}) == ["answer"]
    value = {"items": [{"name": 1}, {"name": "b"}, {"name": None}], "two words": "x", "z": 1}
    assert await faults(schema, value) == [
        "answer.items[0].name",
        "answer.items[2].name",
        "answer['two words']",
        "answer.z",
    ]


async def test_faults_are_listed_up_to_their_limit() -> None:
    schema = {"items": {"type": "integer"}}
    assert len(await faults(schema, ["x"] * 500)) == VIOLATIONS_MAX


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], [{"a": 1}, {"a": 1.0}]),
        ({"patternProperties": {"^x-": {"type": "integer"}}}, {"x-a": 1, "b": "c"}, {"x-a": "c"}),
        (
            {"patternProperties": {"^x-": {}}, "additionalProperties": {"type": "string"}},
            {"x-a": 1, "b": "c"},
            {"b": 1},
        ),
        ({"pattern": "^[a-z]+(-[a-z]+)*$"}, "a-slug-here", "a--slug"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "const": 1}, 1, 2),
        (True, {}, None),
    ],
)
async def test_keywords_do_what_json_schema_says(schema: Any, good: Any, bad: Any) -> None:
    assert await refused(schema) == ""
    assert await faults(schema, good) == []
    if bad is not None:
        assert await faults(schema, bad) != []


async def test_a_recursive_schema_takes_an_answer_as_deep_as_json_may_be() -> None:
    schema = {"type": ["array", "integer"], "items": {"$ref": "#"}}
    value: Any = 1
    for _ in range(64):
        value = [value]
    assert await faults(schema, value) == []
    assert await faults(schema, [value]) == ["answer"]


async def test_text_is_an_answer_where_nothing_is_said_of_it() -> None:
    text = Payload(data=b"hello", media_type="text/plain")
    free = Question(question_id="i", task_id="t")
    assert await answer_violations(free, text) == ()
    bound = Question(question_id="i", task_id="t", kind=QuestionKind.APPROVAL)
    (one,) = await answer_violations(bound, text)
    assert one.field == "answer.media_type"


# --- schemas -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ('{"a"', "no JSON"),
        ([], "an object, true or false"),
        ({"type": "strin"}, "at type"),
        ({"properties": {"a": {"minimum": "x"}}}, "at properties.a.minimum"),
        ({"$schema": "https://example.com/own"}, "is none of"),
        ({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "at the top"),
        ({"$ref": "https://example.com/schema"}, "leads elsewhere"),
        ({"$ref": "file:///etc/passwd"}, "leads elsewhere"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "leads to nothing"),
        ({"$ref": "#"}, "in circles"),
        ({"pattern": "("}, "no pattern"),
        ({"pattern": "(?=a)"}, "not supported"),
        ({"pattern": r"(a)\1"}, "invalid escape sequence"),
        ({"patternProperties": {"a" * 1_001: {}}}, "at most 1,000 characters"),
        ({"enum": list(range(2_001))}, "at most 2,000 values"),
        ({"unevaluatedProperties": False, "patternProperties": {}}, "not taken together"),
    ],
)
async def test_unsupported_schema_is_refused_with_a_reason(schema: Any, why: str) -> None:
    assert why in await refused(schema)


async def test_a_sound_schema_is_looked_at_once() -> None:
    question = NeedsAnswer(prompt="?", schema=json.dumps({"enum": list(range(1_500))}))
    assert await question_violations(question) == ()
    with pytest.raises(StopIteration) as at_once:
        question_violations(question).send(None)
    assert at_once.value.value == ()


# --- no check takes long -------------------------------------------------------------------------------


async def test_references_that_double_at_every_level_are_refused() -> None:
    schema: dict[str, Any] = {"$defs": {"d40": {}}, "$ref": "#/$defs/d0"}
    for n in range(40):
        twice = [{"$ref": f"#/$defs/d{n + 1}"}] * 2
        schema["$defs"][f"d{n}"] = {"allOf": twice}
    assert "takes too long" in await refused(schema)


async def test_a_pattern_takes_a_time_in_proportion_to_its_text() -> None:
    assert await faults({"pattern": "^(a+)+$"}, "a" * 100_000 + "b") == ["answer"]


async def test_large_check_runs_off_the_event_loop() -> None:
    seen: list[str] = []

    class Watched(str):
        __slots__ = ()

        def partition(self, sep: str) -> tuple[str, str, str]:
            seen.append(threading.current_thread().name)
            return super().partition(sep)

    asked = Question(question_id="i", task_id="t", schema='{"items": {"type": "integer"}}')
    large = Payload(data=json.dumps(list(range(20_000))).encode(), media_type=Watched("text/json"))
    await answer_violations(asked, large)
    assert all(name.startswith("schemas") for name in seen)
    assert seen


@pytest.mark.parametrize(
    "source",
    [r"(a)\1", "(?=a)", r"\u0041", r"\pL{300}", "a{1,5000}", "a++", "[", "((a{99}){99})"],
)
def test_pattern_that_re2_refuses_is_an_error(source: str) -> None:
    with pytest.raises(PatternError):
        check_pattern(source, Effort(100_000))


def test_pattern_over_half_a_surrogate_pair_matches_one_character() -> None:
    assert matches("^.$", "\ud83d", Effort(100_000))


@pytest.mark.parametrize(
    ("source", "text"),
    [("a" * 900, ""), (".{900}", ""), ("(a|b)*a(a|b){200}", "a" * 1_000)],
    ids=["length", "instructions", "text"],
)
def test_pattern_work_beyond_the_steps_is_too_long(source: str, text: str) -> None:
    with pytest.raises(TooLong):
        matches(source, text, Effort(300))
