"""Orchestrators on a run store, a task store and a context store: which calls come, and when."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stepwell.core.records.errors import AlreadyExists, RunNotFound
from stepwell.core.records.states import RunStatus
from stepwell.embedded import MemoryStore, Orchestrator, RunFailed, RunStore, SQLiteStore
from stepwell.embedded.driver_stores import DriverStore
from stepwell_client import (
    Agent,
    Budget,
    Continue,
    Effect,
    Finish,
    NeedsInput,
    OnFailure,
    ReflectContext,
    Retry,
    SynthesizeContext,
    Task,
    TaskContext,
)
from stepwell_testkit.conformance.harness import turns

pytestmark = pytest.mark.usefixtures("nothing_is_left")


class OwnStore:
    """All three stores as a user would write them at first: synchronous, of dicts. It records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.runs: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.results: dict[str, Any] = {}

    def create_run(self, run_id: str, goal: str, limit: int) -> Any:
        self.calls.append(("create", goal, limit))
        self.runs[run_id] = {
            "goal": goal,
            "max_iterations": limit,
            "phase": "PLANNING",
            "iteration": 0,
        }

    def get_run(self, run_id: str) -> dict[str, Any]:
        return self.runs[run_id]

    def update_loop_state(self, run_id: str, phase: str, iteration: int, task: str | None) -> None:
        self.calls.append((phase, iteration, task))
        self.runs[run_id] |= {"phase": phase, "iteration": iteration}

    def save_tasks(self, run_id: str, tasks: Sequence[dict[str, Any]]) -> None:
        self.tasks = {task["id"]: json.loads(json.dumps(task)) for task in tasks}

    def update_task(self, run_id: str, task_id: str, status: str) -> None:
        self.calls.append((task_id, status))
        self.tasks[task_id]["status"] = status

    def get_tasks(self, run_id: str, status: str | None = None) -> list[dict[str, Any]]:
        return [row for row in self.tasks.values() if status in (None, row["status"])]

    def save_result(self, run_id: str, task_id: str, result: object) -> Any:
        self.calls.append(("result", task_id, result))
        self.results[task_id] = json.loads(json.dumps(result))

    def get_all_results(self, run_id: str) -> dict[str, Any]:
        return dict(self.results)


class AsyncStore(OwnStore):
    """The same with asynchronous calls at some of the places."""

    async def create_run(self, run_id: str, goal: str, limit: int) -> None:
        super().create_run(run_id, goal, limit)

    async def save_result(self, run_id: str, task_id: str, result: object) -> None:
        super().save_result(run_id, task_id, result)


class _Recording(DriverStore):
    """Records the calls of a store of ours."""

    calls: list[tuple[object, ...]]

    async def create_run(self, run_id: str, goal: str, max_iterations: int, /) -> None:
        self.calls.append(("create", goal, max_iterations))
        await super().create_run(run_id, goal, max_iterations)

    async def update_loop_state(
        self, run_id: str, phase: str, iteration: int, current_task_id: str | None, /
    ) -> None:
        self.calls.append((phase, iteration, current_task_id))

    async def save_result(self, run_id: str, task_id: str, result: object, /) -> None:
        self.calls.append(("result", task_id, result))


class RecordingMemory(_Recording, MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.calls = []


class RecordingSQLite(_Recording, SQLiteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.calls = []


def twice() -> Agent:
    """Plans two tasks, then one more in a second iteration, then answers with the last number."""
    agent = Agent()

    @agent.plan
    def plan(ctx: object) -> list[Task]:
        return [Task("a", "double", input=1), Task("b", "double", input=2)]

    @agent.task("double")
    def double(ctx: TaskContext, number: int) -> int:
        return 2 * number

    @agent.reflect
    def reflect(ctx: ReflectContext) -> Finish | Continue:
        return Finish() if ctx.iteration == 2 else Continue([Task("c", "double", input=3)])

    @agent.synthesize
    def answer(ctx: SynthesizeContext) -> dict[str, int]:
        return {"last": ctx.results["c"]}

    return agent


SEQUENCE = [
    ("create", "add", 7),
    ("EXECUTING", 0, None),
    ("EXECUTING", 0, "a"),
    ("a", "running"),
    ("result", "a", 2),
    ("a", "completed"),
    ("EXECUTING", 0, "b"),
    ("b", "running"),
    ("result", "b", 4),
    ("b", "completed"),
    ("REFLECTING", 0, None),
    ("EXECUTING", 1, None),
    ("EXECUTING", 1, "c"),
    ("c", "running"),
    ("result", "c", 6),
    ("c", "completed"),
    ("REFLECTING", 1, None),
    ("result", "__result__", {"last": 6}),
    ("DONE", 1, None),
]


@pytest.mark.parametrize("kind", ["own", "async", "memory", "sqlite"])
async def test_the_stores_are_called_at_five_places_in_order(kind: str, tmp_path: Path) -> None:
    made: dict[str, Callable[[], Any]] = {
        "own": OwnStore,
        "async": AsyncStore,
        "memory": RecordingMemory,
        "sqlite": lambda: RecordingSQLite(tmp_path / "runs.db"),
    }
    store = made[kind]()
    orchestrator = Orchestrator("add", 7, twice(), store, store, store, "r1")

    for _ in range(2):  # The second finds that all is done.
        assert (await orchestrator.run()).value == {"last": 6}

    # A task's row isn't written to stores of ours: they show the loop's.
    words = (
        SEQUENCE if isinstance(store, OwnStore) else [call for call in SEQUENCE if len(call) == 3]
    )
    assert store.calls == words


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_our_stores_show_the_run_as_it_is_committed(kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "runs.db")
    seen: list[object] = []

    async def inspect(value: int) -> int:
        run = await store.get("r1")
        assert run is not None
        seen.append((run["phase"], run["iteration"], run["current_task_id"], run["status"]))
        seen.append([row["id"] for row in await store.get_tasks("r1", "pending")])
        seen.append(await store.get_all_results("r1"))
        return value

    registry = {
        "plan": lambda ctx: [Task("a", "inspect", input=1), Task("b", "inspect", input=2)],
        "inspect": inspect,
    }
    await Orchestrator("see", 3, registry, store, store, store, "r1").run()

    assert seen == [
        *[("EXECUTING", 0, "a", "running"), ["b"], {}],
        *[("EXECUTING", 0, "b", "running"), [], {"a": 1}],
    ]
    assert await store.get_all_results("r1") == {"a": 1, "b": 2, "__result__": {"a": 1, "b": 2}}
    assert (await store.get_tasks("r1"))[1] == {
        "id": "b",
        "status": "completed",
        "iteration": 0,
        "type": "inspect",
        "input": 2,
    }
    run = await store.get_run("r1")
    assert run is not None
    assert (run["goal"], run["max_iterations"], run["phase"]) == ("see", 3, "DONE")


async def test_asking_our_stores_creates_nothing(tmp_path: Path) -> None:
    for store in (MemoryStore(), SQLiteStore(tmp_path / "runs.db")):
        assert await store.get_run("r1") is None
        assert await store.get_tasks("r1") == []
        assert await store.get_all_results("r1") == {}
        with pytest.raises(RunNotFound, match="itself"):
            await store.create_run("r1", "", 1)
    assert not SQLiteStore(tmp_path / "runs.db").path.exists()


def test_a_synchronous_record_is_there_before_the_run() -> None:
    store = OwnStore()
    Orchestrator("add", 7, twice(), store, store, store, "r1")

    assert store.get_run("r1")["goal"] == "add"
    with pytest.raises(AlreadyExists, match="resume"):
        Orchestrator("add", 7, twice(), store, store, store, "r1")
    names = ("create_run", "update_loop_state")
    aliased = SimpleNamespace(get=store.get_run, **{name: getattr(store, name) for name in names})
    with pytest.raises(AlreadyExists, match="resume"):
        Orchestrator("add", 7, twice(), cast("RunStore", aliased), store, store, "r1")
    late = AsyncStore()
    Orchestrator("add", 7, twice(), late, late, late, "r1")
    assert late.calls == []


async def test_a_failing_store_stops_the_run_with_its_error() -> None:
    class Full(OwnStore):
        def save_result(self, run_id: str, task_id: str, result: object) -> None:
            raise OSError("no space")

    store = Full()
    with pytest.raises(OSError, match="no space"):
        await Orchestrator("add", 7, twice(), store, store, store, "r1").run()

    assert store.runs["r1"]["phase"] == "EXECUTING"
    assert store.tasks["a"]["status"] == "running"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"run_store": OwnStore()}, "task_store and context_store is missing"),
        ({"run_store": OwnStore(), "task_store": OwnStore()}, "context_store is missing"),
        ({"run_id": None}, "run_id is missing"),
        ({"task_store": object()}, "task_store has no method save_tasks"),
        ({"context_store": MemoryStore()}, "the same MemoryStore"),
        ({"store": "memory://"}, "store: leave it out"),
        ({"budget": Budget(tasks=1)}, "budget: .* no call for"),
        ({"input": 1}, "input: .* no call for"),
        ({"plan": [Task("a", effect=Effect.AT_MOST_ONCE)]}, "plan: task 'a' is AT_MOST_ONCE"),
        ({"registry": None}, "the functions once"),
        ({"registry": ["f"]}, "the registry is a list"),
        ({"registry": {"f": 1}}, r"registry\['f'\] is no function"),
        ({"registry": {"f": lambda a, b: 0}}, r"registry\['f'\] needs a, b"),
    ],
)
def test_stores_that_do_not_fit_are_refused(arguments: dict[str, Any], said: str) -> None:
    store = OwnStore()
    stores = {"run_store": store, "task_store": store, "context_store": store}
    if "run_store" in arguments:
        stores = {}
    with pytest.raises(ValueError, match=said):
        Orchestrator("", **{"registry": twice(), "run_id": "r1", **stores, **arguments})
    assert store.calls == []


@pytest.mark.parametrize("asks", ["question", "effect"])
async def test_what_own_stores_cannot_keep_fails_its_step(asks: str) -> None:
    def ask(_: object) -> None:
        raise NeedsInput("who?")

    effect = Effect.AT_MOST_ONCE if asks == "effect" else Effect.IDEMPOTENT
    registry = {"plan": lambda ctx: [Task("a", "ask", effect=effect)], "ask": ask}
    store = OwnStore()
    orchestrator = Orchestrator("", 1, registry, store, store, store, "r1")
    with pytest.raises(ValueError, match="no call for"):
        await orchestrator.raise_budget(Budget(tasks=1))
    with pytest.raises(RunFailed, match="no call for") as caught:
        await orchestrator.run()

    assert caught.value.result.status is RunStatus.FAILED


async def test_a_mapping_is_a_registry() -> None:
    async def count(text: str = "none") -> int:
        return len(text)

    registry = {
        "plan": lambda ctx: [Task("a", "upper", input="x"), Task("b", "count"), Task("c", "bare")],
        "upper": str.upper,
        "count": count,
        "bare": lambda: "bare",
        "synthesize": lambda ctx: list(ctx.results.values()),
    }

    for orchestrator in (Orchestrator("", registry), Orchestrator("", 2, registry)):
        assert (await orchestrator.run()).value == ["X", 4, "bare"]


async def test_one_task_at_a_time_unless_max_parallel_says_more() -> None:
    most = under_way = 0

    async def work() -> None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        if parallel == 3:
            while most < parallel:
                await turns(1)
        under_way -= 1

    registry = {"plan": lambda ctx: [Task(str(n), "work") for n in range(3)], "work": work}
    for parallel in (1, 3):
        most = under_way = 0
        named: dict[str, Any] = {} if parallel == 1 else {"max_parallel": parallel}
        await Orchestrator("", registry=registry, **named).run()
        assert most == parallel


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
    assert (result.run.spec.goal, result.run.spec.max_iterations) == ("go", 7)
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
