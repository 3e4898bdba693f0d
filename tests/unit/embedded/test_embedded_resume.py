"""Orchestrators that go on from a user's own stores: after a death at any call, and from every phase."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from stepwell.core.records.errors import RunNotFound
from stepwell.embedded import MemoryStore, Orchestrator, RunFailed, SQLiteStore
from stepwell_client import (
    Continue,
    Finish,
    NonRetryable,
    OnFailure,
    PlanContext,
    ReflectContext,
    Replan,
    Retry,
    SynthesizeContext,
    Task,
)
from stepwell_testkit.conformance.harness import turns
from tests.unit.embedded.own_stores import OwnStore, twice

pytestmark = pytest.mark.usefixtures("nothing_is_left")


async def test_a_run_in_own_stores_goes_on_and_its_results_stay() -> None:
    class Away(OwnStore):
        away = True

        def update_loop_state(
            self, run_id: str, phase: str, iteration: int, task: str | None
        ) -> None:
            if self.away and task == "last":
                raise OSError("away")
            super().update_loop_state(run_id, phase, iteration, task)

    calls: list[str] = []

    def work(name: str) -> str:
        calls.append(name)
        if name == "bad":
            raise ValueError(name)
        return name

    def plan(_: object) -> list[Task]:
        bad = Task(
            "bad", "work", input="bad", retry=Retry(max_attempts=1), on_failure=OnFailure.CONTINUE
        )
        return [Task("good", "work", input="good"), bad, Task("last", "work", input="last")]

    store = Away()
    registry = {"plan": plan, "work": work}
    with pytest.raises(OSError, match="away"):
        await Orchestrator("go", 7, registry, store, store, store, "r1").run()
    store.away = False
    store.calls.clear()

    resumed = await Orchestrator.resume("r1", store, store, store, registry)
    result = await resumed.run()

    assert calls == ["good", "bad", "last"]
    assert result.value == {"good": "good", "last": "last"}
    assert (result.run.goal, result.run.max_iterations) == ("go", 7)
    assert [row["status"] for row in store.get_tasks("r1")] == ["completed", "failed", "completed"]
    assert store.calls[0] == ("EXECUTING", 0, "last")

    store.calls.clear()
    again = await Orchestrator.resume("r1", store, store, store, registry)
    assert (await again.run()).value == result.value
    assert store.calls == []
    assert calls == ["good", "bad", "last"]


@pytest.mark.parametrize(
    "stop",
    [("EXECUTING", 2, None), ("EXECUTING", 2, "a"), ("REFLECTING", 2, None), ("DONE", 3, None)],
)
async def test_a_task_that_every_iteration_plans_again_goes_on(stop: tuple[object, ...]) -> None:
    class Away(OwnStore):
        away = True

        def update_loop_state(
            self, run_id: str, phase: str, iteration: int, task: str | None
        ) -> None:
            if self.away and (phase, iteration, task) == stop:
                raise OSError("away")
            super().update_loop_state(run_id, phase, iteration, task)

    numbers: list[int] = []

    def reflect(ctx: ReflectContext) -> Finish | Continue:
        again = Continue([Task("a", "work", input=ctx.iteration + 1)])
        return Finish() if ctx.iteration == 4 else again

    registry = {
        "plan": lambda ctx: [Task("a", "work", input=1)],
        "work": lambda number: numbers.append(number) or number,
        "reflect": reflect,
    }
    store = Away()
    with pytest.raises(OSError, match="away"):
        await Orchestrator("", 9, registry, store, store, store, "r1").run()
    store.away = False

    result = await (await Orchestrator.resume("r1", store, store, store, registry)).run()

    assert (result.value, result.run.iteration, numbers) == ({"a": 4}, 4, [1, 2, 3, 4])
    assert store.get_tasks("r1", "completed")[0]["input"] == 4


class Dying(OwnStore):
    """Fails at one of its calls that write, from then on, with or without having written."""

    def __init__(self, at: int, *, wrote: bool) -> None:
        super().__init__()
        self._left = at
        self._wrote = wrote
        self.settled: set[str] = set()
        """The tasks that were completed with a result when it failed."""
        self.planned: set[str] = set()
        """The plans that it had then."""

    @property
    def is_dead(self) -> bool:
        return self._left < 0

    def heal(self) -> None:
        self._left = 1_000
        self.calls.clear()

    def _write(self, write: Callable[[], None]) -> Any:
        self._left -= 1
        if self.is_dead:
            if self._wrote and self._left == -1:
                write()
            done = [row["id"] for row in self.get_tasks("r1", "completed")]
            self.settled = {name for name in done if name in self.results}
            if self.runs["r1"]["phase"] != "PLANNING":
                self.planned = {f"plan {row['iteration'] + 1}" for row in self.tasks.values()}
            raise OSError("died")
        write()

    def update_loop_state(self, run_id: str, phase: str, iteration: int, task: str | None) -> Any:
        return self._write(
            lambda: super(Dying, self).update_loop_state(run_id, phase, iteration, task)
        )

    def save_tasks(self, run_id: str, tasks: Sequence[dict[str, Any]]) -> Any:
        return self._write(lambda: super(Dying, self).save_tasks(run_id, tasks))

    def update_task(self, run_id: str, task_id: str, status: str) -> Any:
        return self._write(lambda: super(Dying, self).update_task(run_id, task_id, status))

    def save_result(self, run_id: str, task_id: str, result: object) -> Any:
        return self._write(lambda: super(Dying, self).save_result(run_id, task_id, result))


class AsyncDying(Dying):
    """The same, all asynchronous."""

    async def _write(self, write: Callable[[], None]) -> None:
        await turns(1)
        super()._write(write)


def counting(done: list[str], *, replan: bool = False) -> dict[str, Callable[..., Any]]:
    """Functions of a run of two iterations: three tasks, then one more; `done` notes them.

    `replan`: the second plan is the planner's, not the reflection's.
    """
    more = [Task("d", "double", input=4)]

    def plan(ctx: PlanContext) -> list[Task]:
        done.append(f"plan {ctx.iteration}")
        if ctx.iteration == 2:
            return more
        return [Task(name, "double", input=n) for n, name in enumerate("abc", start=1)]

    def double(number: int) -> int:
        done.append("abcd"[number - 1])
        return 2 * number

    def reflect(ctx: ReflectContext) -> Finish | Continue | Replan:
        done.append(f"reflect {ctx.iteration}")
        if ctx.iteration == 2:
            return Finish()
        return Replan("more") if replan else Continue(more)

    def synthesize(ctx: SynthesizeContext) -> int:
        done.append("synthesize")
        return sum(ctx.results.values())

    return {"plan": plan, "double": double, "reflect": reflect, "synthesize": synthesize}


@pytest.mark.parametrize("wrote", [False, True])
@pytest.mark.parametrize(
    ("kind", "max_parallel", "replan"),
    [(Dying, 1, False), (AsyncDying, 3, False), (Dying, 3, True), (AsyncDying, 1, True)],
)
async def test_run_goes_on_after_a_death_at_any_call(
    kind: type[Dying], wrote: bool, max_parallel: int, replan: bool
) -> None:
    """A task that was completed with a result isn't done again, and what was planned isn't planned again."""
    deaths = 0
    for at in range(1_000):
        store, done = kind(at, wrote=wrote), list[str]()
        registry = counting(done, replan=replan)
        first = Orchestrator(
            "add", 7, registry, store, store, store, "r1", max_parallel=max_parallel
        )
        try:
            result = await first.run()
        except OSError:
            deaths += 1
            before = list(done)
            store.heal()
            done.clear()
            resumed = await Orchestrator.resume("r1", store, store, store, registry)
            result = await resumed.run()
            assert not store.settled & set(done), (at, before, done)
            assert len(done) == len(set(done)), (at, before, done)
            assert not store.planned & set(done), (at, before, done)
        else:
            break
        assert (result.value, result.run.iteration) == (20, 2), (at, before, done)
        assert store.results == {"a": 2, "b": 4, "c": 6, "d": 8, "__result__": 20}
        assert (store.runs["r1"]["phase"], store.runs["r1"]["iteration"]) == ("DONE", 1)
        assert {row["status"] for row in store.get_tasks("r1")} == {"completed"}
    assert deaths > 20


@pytest.mark.parametrize(
    ("record", "rows", "again"),
    [
        (
            {"phase": "PLANNING", "iteration": 0},
            {},
            ["plan 1", "a", "b", "c", "reflect 1", "d", "reflect 2"],
        ),
        ({"phase": "EXECUTING"}, {"d": "running"}, ["d", "reflect 2"]),
        ({"phase": "EXECUTING"}, {"d": "pending"}, ["d", "reflect 2"]),
        ({"phase": "EXECUTING"}, {"b": "lost"}, ["b", "reflect 2"]),
        ({"phase": "EXECUTING"}, {"d": "lost"}, ["d", "reflect 2"]),
        ({"phase": "REFLECTING"}, {}, ["reflect 2"]),
        ({"phase": "SYNTHESIZING"}, {}, []),
    ],
)
async def test_resume_does_what_its_phase_has_left(
    record: dict[str, object], rows: dict[str, str], again: list[str]
) -> None:
    """`lost`: completed, and its result is gone."""
    store, done = OwnStore(), list[str]()
    await Orchestrator("add", 7, counting(done), store, store, store, "r1").run()
    done.clear()
    store.runs["r1"] |= record
    del store.results["__result__"]
    for name, status in rows.items():
        del store.results[name]
        store.tasks[name]["status"] = "completed" if status == "lost" else status

    resumed = await Orchestrator.resume("r1", store, store, store, counting(done))

    assert (await resumed.run()).value == 20
    assert done == [*again, "synthesize"]
    assert store.results["__result__"] == 20


@pytest.mark.parametrize("kind", ["own", "memory", "sqlite"])
@pytest.mark.parametrize("retry_failed", [None, False, True])
async def test_failed_tasks_run_again_only_where_the_resume_asks_for_it(
    kind: str, retry_failed: bool | None, tmp_path: Path
) -> None:
    done: list[str] = []

    def work(name: str) -> str:
        done.append(name)
        if done.count("bad") == 1 and name == "bad":
            raise ValueError(name)
        return name

    once = Retry(max_attempts=1)
    registry = {
        "plan": lambda ctx: [
            Task("ok", "work", input="ok", retry=once),
            Task("bad", "work", input="bad", retry=once),
            Task("after", "work", input="after", depends_on=["bad"]),
            Task("free", "work", input="free"),
            Task("last", "work", input="last", depends_on=["free"]),
        ],
        "work": work,
    }
    made: dict[str, Any] = {"own": OwnStore, "memory": MemoryStore}
    store = SQLiteStore(tmp_path / "runs.db") if kind == "sqlite" else made[kind]()
    with pytest.raises(RunFailed):
        await Orchestrator("", 1, registry, store, store, store, "r1").run()
    assert done == ["ok", "bad"]

    resumed = await Orchestrator.resume(
        "r1", store, store, store, registry, retry_failed=retry_failed
    )
    if retry_failed:
        result = await resumed.run()
        assert result.value == {name: name for name in ("ok", "bad", "after", "free", "last")}
        assert sorted(done[2:]) == ["after", "bad", "free", "last"]
    else:
        with pytest.raises(RunFailed):
            await resumed.run()
        # In stores of one's own the failure comes back once all tasks have begun that were ready.
        assert done[2:] == (["free"] if kind == "own" else ["free", "last"])


@pytest.mark.parametrize("kind", ["own", "memory", "sqlite"])
async def test_a_resumed_run_shows_what_was_persisted_before_it_runs(
    kind: str, tmp_path: Path
) -> None:
    def reflect(ctx: ReflectContext) -> Finish | Continue:
        if ctx.iteration == 2 and stops:
            raise NonRetryable("stop")
        return Finish() if ctx.iteration == 2 else Continue([Task("b", "double", input=2)])

    registry = {
        "plan": lambda ctx: [Task("a", "double", input=1)],
        "double": lambda number: 2 * number,
        "reflect": reflect,
    }
    made: dict[str, Any] = {"own": OwnStore, "memory": MemoryStore}
    store = SQLiteStore(tmp_path / "runs.db") if kind == "sqlite" else made[kind]()
    stops = True
    first = Orchestrator("add", 7, registry, store, store, store, "r1")
    assert (first.goal, first.iteration, first.context) == ("add", 0, {})
    with pytest.raises(RunFailed):
        await first.run()

    resumed = await Orchestrator.resume("r1", store, store, store, registry)

    assert (resumed.goal, resumed.iteration, resumed.context) == ("add", 1, {"a": 2, "b": 4})
    stops = False
    result = await resumed.run()
    assert resumed.context == {"a": 2, "b": 4, "__result__": result.value}


async def test_synchronous_stores_are_called_on_the_callers_thread() -> None:
    class Watched(OwnStore):
        threads: ClassVar[set[int]] = set()

        def __getattribute__(self, name: str) -> Any:
            if name in ("update_task", "save_result", "get_run", "create_run", "save_tasks"):
                Watched.threads.add(threading.get_ident())
            return super().__getattribute__(name)

    store = Watched()
    await Orchestrator("add", 7, counting([]), store, store, store, "r1", max_parallel=3).run()
    await Orchestrator.resume("r1", store, store, store, counting([]))

    assert Watched.threads == {threading.get_ident()}


@pytest.mark.parametrize("kind", ["own", "memory", "sqlite"])
async def test_resuming_an_unknown_run_creates_nothing(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    made: dict[str, Any] = {"own": OwnStore(), "memory": MemoryStore(), "sqlite": SQLiteStore(path)}
    store = made[kind]

    with pytest.raises(RunNotFound):
        await Orchestrator.resume("r1", store, store, store, twice())

    assert kind == "own" or await store.get_run("r1") is None
    assert not SQLiteStore(path).path.exists()


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"phase": "THINKING"}, "run_store: the phase 'THINKING' is none of PLANNING, EXECUTING"),
        ({"phase": "executing"}, "task_store: the row of task 'a' can't be read: .*retry"),
    ],
)
async def test_a_record_that_cannot_be_read_is_refused(record: dict[str, str], said: str) -> None:
    store = OwnStore()
    store.create_run("r1", "", 1)
    store.runs["r1"] |= record
    store.tasks["a"] = {"id": "a", "status": "pending", "retry": 3}

    with pytest.raises(ValueError, match=said):
        await Orchestrator.resume("r1", store, store, store, twice())
    with pytest.raises(ValueError, match="task_store and context_store is missing"):
        await Orchestrator.resume("r1", store, registry=twice())
    with pytest.raises(ValueError, match="or store="):
        await Orchestrator.resume("r1", twice())
