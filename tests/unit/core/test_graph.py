"""Plans: what is refused, and where the fault is said to be."""

from __future__ import annotations

import msgspec
import pytest

from stepwell.core.records import limits
from stepwell.core.records.graph import Graph, fingerprint, violations_of
from stepwell.core.records.model import Payload, RetryPolicy, TaskSpec
from tests.unit.core.loop_world import chain


def fields(*tasks: TaskSpec, settled: tuple[str, ...] = ()) -> list[str]:
    return [violation.field for violation in violations_of(tasks, settled.__contains__)]


def test_a_sound_plan_has_no_violations() -> None:
    assert fields(*chain("a", "b", "c")) == []


def test_an_empty_plan_is_refused() -> None:
    assert fields() == ["plan.tasks"]


def test_an_unknown_dependency_is_named_by_its_place() -> None:
    tasks = [TaskSpec(task_id="a"), TaskSpec(task_id="b", depends_on=("a", "x"))]
    assert fields(*tasks) == ["plan.tasks[1].depends_on[1]"]


def test_a_settled_task_of_an_earlier_plan_may_be_depended_on() -> None:
    assert fields(TaskSpec(task_id="b", depends_on=("old",)), settled=("old",)) == []


def test_a_task_can_not_depend_on_itself() -> None:
    assert fields(TaskSpec(task_id="a", depends_on=("a",))) == ["plan.tasks[0].depends_on[0]"]


def test_dependency_that_is_named_twice_is_refused_at_its_second_place() -> None:
    tasks = [*chain("a", "b"), TaskSpec(task_id="c", depends_on=("a", "b", "a"))]
    assert fields(*tasks) == ["plan.tasks[2].depends_on[2]"]


def test_ids_are_unique() -> None:
    assert fields(TaskSpec(task_id="a"), TaskSpec(task_id="a")) == ["plan.tasks[1].task_id"]


@pytest.mark.parametrize("bad", ["", "a b", "a\n", "{a}", "ä", "-a", "a" * 65])
def test_a_malformed_id_is_refused(bad: str) -> None:
    assert fields(TaskSpec(task_id=bad)) == ["plan.tasks[0].task_id"]


def test_cycle_of_3_in_1000_tasks_is_named() -> None:
    tasks = chain(*(f"t{n}" for n in range(997)))
    tasks += [
        TaskSpec(task_id="x", depends_on=("t5", "z")),
        TaskSpec(task_id="y", depends_on=("x",)),
        TaskSpec(task_id="z", depends_on=("y",)),
    ]
    found = violations_of(tasks)
    assert [violation.field for violation in found] == ["plan.tasks[997].depends_on[1]"]
    assert "x -> z -> y -> x" in found[0].description


def test_plan_in_the_order_of_its_dependencies_is_not_searched_for_cycles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[object] = []
    monkeypatch.setattr("stepwell.core.records.graph._check_cycles", lambda *_: searched.append(1))
    first, second = TaskSpec(task_id="a"), TaskSpec(task_id="b", depends_on=("a",))
    assert violations_of((first, second)) == ()
    assert searched == []
    assert violations_of((second, first)) == ()
    assert searched == [1]


def test_a_plan_of_10001_is_refused() -> None:
    tasks = [TaskSpec(task_id=f"t{n}") for n in range(limits.PLAN_TASKS_MAX + 1)]
    found = violations_of(tasks)
    assert [violation.field for violation in found] == ["plan.tasks"]
    assert "10001" in found[0].description


def test_no_more_violations_than_the_limit_are_reported() -> None:
    tasks = [TaskSpec(task_id=f"t{n}", depends_on=("x",)) for n in range(500)]
    assert len(violations_of(tasks)) == limits.VIOLATIONS_MAX


def test_equal_plans_have_equal_fingerprints() -> None:
    assert fingerprint(chain("a", "b")) == fingerprint(chain("a", "b"))
    assert fingerprint(chain("a", "b")) != fingerprint(chain("b", "a"))


def test_stored_or_sent_plan_keeps_its_fingerprint() -> None:
    given = TaskSpec(task_id="a", retry=RetryPolicy(max_attempts=6), input=Payload(data=b"x"))
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(given), type=TaskSpec)
    said_out = TaskSpec(
        task_id="a",
        type=str(b"", "ascii"),
        retry=RetryPolicy(
            max_attempts=6, backoff_multiplier=float("2"), max_backoff_ms=int("60000")
        ),
        input=Payload(data=b"x", media_type=str(b"application/json", "ascii")),
    )
    plain = TaskSpec(task_id="a", retry=RetryPolicy(max_backoff_ms=int("60000")))
    assert fingerprint([stored]) == fingerprint([said_out]) == fingerprint([given])
    assert fingerprint([plain]) == fingerprint([TaskSpec(task_id="a")]) != fingerprint([given])


def test_downstream_is_everything_that_builds_on_a_task() -> None:
    graph = Graph({task.task_id: task for task in chain("a", "b", "c")})
    assert graph.downstream("a") == ["b", "c"]
