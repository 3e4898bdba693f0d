"""Orchestrators on a run store, a task store and a context store: which calls come, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stepwell.core.records.errors import AlreadyExists, RunNotFound
from stepwell.embedded import MemoryStore, Orchestrator, RunFailed, RunStore, SQLiteStore
from stepwell.embedded.driver_stores import DriverStore
from stepwell_client import (
    Budget,
    Effect,
    NeedsAnswer,
    RunStatus,
    Task,
)
from stepwell_testkit.conformance.harness import turns
from tests.unit.embedded.own_stores import OwnStore, twice

pytestmark = pytest.mark.usefixtures("nothing_is_left")


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


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_our_stores_have_the_record_once_the_orchestrator_is_made(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    store = MemoryStore() if kind == "memory" else SQLiteStore(path)
    Orchestrator("add", 7, twice(), store, store, store, "r1")

    async def read() -> None:
        found = await (store if kind == "memory" else SQLiteStore(path)).get_run("r1")
        assert found is not None
        assert (found["goal"], found["phase"], found["iteration"]) == ("add", "PLANNING", 0)
        resumed = await Orchestrator.resume("r1", store, store, store, twice())
        assert (await resumed.run()).value == {"last": 6}

    asyncio.run(read())


async def test_an_orchestrator_that_is_made_within_a_run_has_its_record_too(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    seen: list[object] = []

    async def nest() -> None:
        Orchestrator("inner", 7, twice(), store, store, store, "r2")
        seen.append(await store.get_run("r2"))

    registry = {"plan": lambda ctx: [Task("a", "nest")], "nest": nest}
    await Orchestrator("outer", 1, registry, store, store, store, "r1").run()

    assert cast("Any", seen[0])["goal"] == "inner"
    assert await SQLiteStore(store.path).get_run("r2") is not None


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
        raise NeedsAnswer("who?")

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
