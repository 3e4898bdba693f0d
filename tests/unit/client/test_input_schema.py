"""The JSON schema of a run's input: from the plan function's annotation, or as it is given."""

from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, TypedDict

import pydantic
import pytest

from stepwell.schemas.effort import Effort
from stepwell.schemas.guarded import Schema
from stepwell_client import Agent, PlanContext, encode
from stepwell_client.errors import Misconfigured
from stepwell_client.v1 import types_pb2


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class City(pydantic.BaseModel):
    name: str = pydantic.Field(title="Name", min_length=1)
    mayor: Person | None = None


class Person(pydantic.BaseModel):
    age: int


@dataclass
class Part:
    path: str
    parent: Part | None = None


@dataclass(frozen=True)
class Request:
    directory: Path
    files_max: int = 3_000
    colours: list[Colour] = field(default_factory=lambda: [Colour.RED])
    part: Part = field(default_factory=lambda: Part("a"))


class Options(TypedDict, total=False):
    depth: int


class Unknowable:
    pass


UserId = NewType("UserId", int)


def schema_for(annotation: Any) -> Any:
    agent = Agent()

    @agent.plan
    def plan(ctx: PlanContext, given: Any) -> list[Any]:
        return []

    assert agent.input_schema == ""
    agent = Agent()
    plan.__annotations__["given"] = annotation
    agent.plan(plan)
    return json.loads(agent.input_schema) if agent.input_schema else None


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (UserId, {"type": "integer"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (set[float], {"type": "array", "items": {"type": "number"}}),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (Literal["a", 2], {"enum": ["a", 2]}),
        (Colour, {"enum": ["red", "blue"]}),
        (Annotated[datetime.date, "of birth"], {"type": "string", "format": "date"}),
        (Options, {"type": "object", "properties": {"depth": {"type": "integer"}}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
    ],
    ids=str,
)
def test_annotation_of_the_plan_functions_input_is_the_schema(annotation: Any, schema: Any) -> None:
    assert schema_for(annotation) == schema


@pytest.mark.parametrize("annotation", [Any, bytes, types_pb2.Payload, Unknowable], ids=str)
def test_type_without_a_schema_gives_none(annotation: Any) -> None:
    assert schema_for(annotation) is None


def test_schema_of_a_dataclass_has_its_fields_with_defaults() -> None:
    part = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "parent": {"anyOf": [{}, {"type": "null"}], "default": None},
        },
        "required": ["path"],
    }
    assert schema_for(Request) == {
        "type": "object",
        "properties": {
            "directory": {"type": "string"},
            "files_max": {"type": "integer", "default": 3_000},
            "colours": {
                "type": "array",
                "items": {"enum": ["red", "blue"]},
                "default": ["red"],
            },
            "part": {**part, "default": {"path": "a", "parent": None}},
        },
        "required": ["directory"],
    }


def test_pydantic_model_gives_its_own_schema_also_within_a_list() -> None:
    assert schema_for(City) == City.model_json_schema()
    cities = schema_for(list[City])
    assert cities["items"]["properties"]["name"]["title"] == "Name"
    assert cities["$defs"] == City.model_json_schema()["$defs"]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Request, Request(Path("/tmp"))),
        (list[City], [City(name="Oslo", mayor=Person(age=3))]),
        (tuple[int, str], (1, "a")),
    ],
    ids=str,
)
def test_value_as_it_is_encoded_fits_the_schema_of_its_type(annotation: Any, value: Any) -> None:
    schema = Schema(schema_for(annotation), Effort(100_000))
    payload = encode(value)
    assert payload is not None
    assert not schema.faults(json.loads(payload.data), Effort(100_000), 10)


def test_schema_that_is_given_stands_before_the_annotation() -> None:
    agent = Agent()

    @agent.plan(input_schema={"type": "object", "title": "Größe"})
    def plan(ctx: PlanContext, given: str) -> list[Any]:
        return []

    assert json.loads(agent.input_schema) == {"type": "object", "title": "Größe"}


def test_schema_that_is_no_json_or_too_large_is_refused() -> None:
    with pytest.raises(Misconfigured, match="input_schema is no JSON"):
        Agent().plan(input_schema={"default": object()})
    with pytest.raises(Misconfigured, match=r"input_schema has 65,5.. bytes of JSON, and at most"):
        Agent().plan(input_schema={"title": "x" * 65_536})


def test_annotation_whose_schema_is_too_large_gives_none() -> None:
    assert schema_for(Literal[("x" * 70_000,)]) is None


def test_agent_without_a_plan_function_has_no_schema() -> None:
    assert Agent().input_schema == ""
