"""A run with many open child runs: a commit costs it no more than a run with few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    AwaitChild,
    ChildEnds,
    Completed,
    Delivery,
    LettersDelivered,
    Occurrence,
    Open,
    Result,
    Suspended,
    SuspendedCall,
)
from stepwell.core.port import Commit
from stepwell.core.records.model import Budget, Payload, Question, TaskSpec
from stepwell.core.records.states import TaskStatus
from tests.unit.core.loop_world import World, committed, task

CHILD = AwaitChild(
    goal="g", tasks=(TaskSpec(task_id="w"),), budget=Budget(input_tokens=10, cost_micros=7)
)
MANY = 2_000
AT_ONCE = 100


class Watched(dict[str, Question]):
    """Questions of a run that count the rows over which somebody iterates."""

    rows = 0

    def __iter__(self) -> Iterator[str]:
        self.rows += len(self)
        return super().__iter__()

    def items(self) -> Any:
        self.rows += len(self)
        return super().items()

    def values(self) -> Any:
        self.rows += len(self)
        return super().values()


class Parent(World):
    """A run of two steps, of which `many` waits for child runs, and `other` for nothing."""

    def __init__(self, children: int) -> None:
        super().__init__()
        budget = Budget(input_tokens=10**9, cost_micros=10**9)
        self.start(plan=(task("many"), task("other")), budget=budget)
        self.tokens = {one: self.lease(f"task:{one}#1") for one in ("many", "other")}
        self.opens = 0
        for begin in range(0, children, AT_ONCE):
            self.do(self.opened(*range(begin, min(children, begin + AT_ONCE))))
            self.do(LettersDelivered(last=self.run.letters.next - 1))

    def opened(self, *names: int) -> Open:
        """Return a message that starts further children."""
        self.opens += 1
        return Open(
            execution_id="task:many#1",
            token=self.tokens["many"],
            number=self.opens,
            calls=tuple(waits_for(one) for one in names),
        )

    def outcome(self, name: str, result: Result) -> Delivery:
        return Delivery(execution_id=f"task:{name}#1", token=self.tokens[name], result=result)

    def ends(self, name: int) -> ChildEnds:
        question = self.state.questions[self.state.calls["many", f"kid {name}"]]
        return ChildEnds(
            question_id=question.question_id,
            run_id=question.prompt,
            status="SUCCEEDED",
            value=Payload(data=b"{}"),
        )

    def cost(self, *occurrences: Occurrence) -> tuple[int, Commit]:
        """Return the number of questions that a decision goes through, and its commit, which is applied."""
        state, whole, by_step = self.state, self.state.questions, self.state.of_step
        steps = {name: Watched(rows) for name, rows in by_step.items()}
        state.questions = watched = Watched(whole)
        state.of_step = {**steps}
        commit = committed(self.advance(*occurrences))
        state.questions, state.of_step = whole, by_step
        self.do(*occurrences)
        return watched.rows + sum(one.rows for one in steps.values()), commit


def waits_for(name: int) -> SuspendedCall:
    return SuspendedCall(call=f"kid {name}", wait=CHILD)


def decided(parent: Parent, children: int) -> dict[str, tuple[int, Commit]]:
    """Return what each kind of decision costs the run that waits for so many children."""
    found: dict[str, tuple[int, Commit]] = {}
    found["start another"] = parent.cost(parent.opened(children))
    parent.do(LettersDelivered(last=parent.run.letters.next - 1))
    found["end while it runs"] = parent.cost(parent.ends(0))
    waits = tuple(waits_for(one) for one in range(1, 5))
    known = replace(parent.opened(children), known=("kid 0",))
    parent.do(known)
    suspended = Suspended(waits=waits, more=True)
    found["suspend"] = parent.cost(parent.outcome("many", suspended))
    assert parent.task("many").status is TaskStatus.BLOCKED
    found["wake"] = parent.cost(parent.ends(1))
    found["lease"] = parent.cost(parent.take("task:many#2"))
    found["other step"] = parent.cost(parent.outcome("other", Completed()))
    return found


def test_a_decision_of_a_run_with_many_children_goes_through_none_of_them() -> None:
    few, many = decided(Parent(10), 10), decided(Parent(MANY), MANY)
    assert {name: rows for name, (rows, _) in many.items()} == dict.fromkeys(many, 0)
    size = {name: len(msgspec.msgpack.encode(commit)) for name, (_, commit) in few.items()}
    for name, (_, commit) in many.items():
        # The numbers of a run with more children have a few digits more.
        assert len(msgspec.msgpack.encode(commit)) <= size[name] + 100, name


def test_named_ends_make_the_row_of_a_running_step_small_again() -> None:
    parent = Parent(200)
    parent.do(*map(parent.ends, range(150)))
    assert len(parent.task("many").journal.answered) == 150
    parent.do(replace(parent.opened(), known=tuple(f"kid {name}" for name in range(149))))
    assert parent.task("many").journal.answered == ("kid 149",)
    assert len(parent.state.calls) == 50


def test_open_children_hold_their_shares_of_the_budget_until_they_end() -> None:
    parent = Parent(3)
    assert parent.state.shares == (30, 0, 21)
    parent.do(parent.ends(1), parent.opened(3, 4))
    assert parent.state.shares == (40, 0, 28)
    parent.deliver("task:many#1", Completed())
    assert parent.state.shares == (0, 0, 0)
