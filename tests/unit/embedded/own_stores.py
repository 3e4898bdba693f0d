"""Stores as a user would write them, and an agent whose run calls them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from stepwell_client import (
    Agent,
    Continue,
    Finish,
    ReflectContext,
    SynthesizeContext,
    Task,
    TaskContext,
)


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
