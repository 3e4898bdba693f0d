"""The agent: which function does a step, and how its input is read."""

from __future__ import annotations

import contextvars
import functools
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from stepwell_client import Agent, TaskContext, decode
from stepwell_client.errors import Misconfigured
from stepwell_client.v1 import types_pb2
from tests.support.steps import Order, assignment, outcome_of, run

REFLECT = types_pb2.STEP_KIND_REFLECT


@dataclass
class Part:
    path: str
    lines: list[int]
    note: str | None = None


@pytest.mark.parametrize(
    ("annotation", "given", "seen"),
    [
        (Order, {"item": "a", "count": 2}, "Order(item='a', count=2)"),
        (Part, {"path": "p", "lines": [1]}, "Part(path='p', lines=[1], note=None)"),
        (dict[str, int], {"a": 1}, "{'a': 1}"),
        (list[Order], [{"item": "a", "count": 2}], "[Order(item='a', count=2)]"),
        (str, "text", "'text'"),
        (bytes, b"\x00\xff", "b'\\x00\\xff'"),
        (float, 1, "1.0"),
        (int | None, None, "None"),
        (Any, [1, None], "[1, None]"),
        ("Order", {"item": "a", "count": 2}, "Order(item='a', count=2)"),
    ],
    ids=str,
)
async def test_the_annotation_decides_how_the_input_is_read(
    annotation: Any, given: Any, seen: str
) -> None:
    def work(ctx: TaskContext, it: Any) -> str:
        return repr(it).replace("test_execution.", "")

    work.__annotations__["it"] = annotation

    outcome = await outcome_of(work, given=given)

    assert decode(outcome.completed.result) == seen


async def test_unfitting_input_fails_for_good_with_paths_only() -> None:
    def work(ctx: TaskContext, order: Order) -> None:
        raise AssertionError("not to be called")

    outcome = await outcome_of(work, given={"item": 99_991, "count": "many"})

    failure = outcome.failed.failure
    assert (failure.kind, failure.retryable) == ("INVALID_INPUT", False)
    assert [violation.field for violation in failure.violations] == ["$.item", "$.count"]
    assert "99991" not in str(failure)


async def test_type_of_a_closure_is_resolved() -> None:
    class Local(pydantic.BaseModel):
        n: int

    async def work(ctx: TaskContext, it: Local) -> Local:
        return Local(n=it.n + 1)

    outcome = await outcome_of(work, given={"n": 1})

    assert decode(outcome.completed.result, Local) == Local(n=2)


@pytest.mark.parametrize(("given", "seen"), [(7, [7, 1]), (0, [0, 1]), (None, [5, 1])])
async def test_input_takes_the_place_of_the_parameters_default(given: Any, seen: list[int]) -> None:
    def work(ctx: TaskContext, x: int = 5, *, own: int = 1) -> list[int]:
        return [x, own]

    assert decode((await outcome_of(work, given=given)).completed.result) == seen


async def test_a_partials_keyword_keeps_its_value() -> None:
    def work(ctx: TaskContext, x: int) -> int:
        return x

    outcome = await outcome_of(functools.partial(work, x=3), given=7)
    assert decode(outcome.completed.result) == 3


def test_a_function_of_the_wrong_shape_is_refused_at_the_decorator() -> None:
    agent = Agent()
    with pytest.raises(Misconfigured, match="must take the context"):
        agent.task(lambda: None)
    with pytest.raises(Misconfigured, match="must take the context"):
        agent.task(lambda ctx, it, more: None)

    def unknown(ctx: TaskContext, it: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821 - that is the point

    with pytest.raises(Misconfigured, match="Nowhere"):
        agent.task(unknown)


def test_one_function_a_step() -> None:
    agent = Agent()
    agent.plan(lambda ctx: [])
    agent.task("a")(lambda ctx: None)
    with pytest.raises(Misconfigured, match="plan already"):
        agent.plan(lambda ctx: [])
    with pytest.raises(Misconfigured, match="two functions"):
        agent.task("a")(lambda ctx: None)


async def test_the_closest_function_does_a_task() -> None:
    agent = Agent()
    agent.task("a", role="r")(lambda ctx: "type and role")
    agent.task("a")(lambda ctx: "type")
    agent.task(role="r")(lambda ctx: "role")
    agent.task(lambda ctx: "any")

    async def by(type_: str, role: str) -> Any:
        outcome = await run(agent, assignment(type_=type_, role=role))
        return decode(outcome.completed.result)

    assert await by("a", "r") == "type and role"
    assert await by("a", "s") == "type"
    assert await by("b", "r") == "role"
    assert await by("b", "s") == "any"
    assert agent.roles == ("r",)
    patterns = {(one.type, one.role) for one in agent.patterns(agent.roles)}
    assert patterns == {(type_, role) for type_ in ("a", "*") for role in ("", "r")}
    assert {one.role for one in agent.patterns(["*"])} == {"*", "r"}
    assert {one.role for one in agent.patterns(["s"])} == {"", "s"}
    assert agent.types == ("a",)


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (assignment(type_="cuont"), "UNKNOWN_TASK_TYPE", "'cuont'"),
        (assignment(type_="cuont"), "UNKNOWN_TASK_TYPE", "count, paint (role painter)"),
        (assignment(kind=REFLECT), "UNKNOWN_STEP_KIND", ""),
    ],
)
async def test_step_without_a_function_fails_for_good_and_names_the_known_ones(
    step: Any, kind: str, words: str
) -> None:
    agent = Agent()
    agent.task("count")(lambda ctx: None)
    agent.task("paint", role="painter")(lambda ctx: None)

    failure = (await run(agent, step)).failed.failure

    assert (failure.kind, failure.retryable) == (kind, False)
    assert words in failure.message


async def test_context_variables_reach_the_thread() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    outcome = await outcome_of(lambda ctx: variable.get())

    assert decode(outcome.completed.result) == "set"


async def test_partials_methods_and_callable_objects_are_functions_too() -> None:
    class Caller:
        async def __call__(self, ctx: TaskContext, it: int) -> int:
            return it + 1

        def method(self, ctx: TaskContext, it: int) -> int:
            return it + 2

    def three(extra: int, ctx: TaskContext, it: int) -> int:
        return it + extra

    agent = Agent()
    agent.task("object")(Caller())
    agent.task("method")(Caller().method)
    agent.task("partial")(functools.partial(three, 3))

    async def by(type_: str) -> Any:
        return decode((await run(agent, assignment(type_=type_, given=0))).completed.result)

    assert [await by("object"), await by("method"), await by("partial")] == [1, 2, 3]


def test_queues_in_one_text_are_refused() -> None:
    assert Agent("reports", queues=["reports", "urgent"]).queues == ("reports", "urgent")
    with pytest.raises(Misconfigured, match=r"queues=\['reports'\]"):
        Agent("reports", queues="reports")
