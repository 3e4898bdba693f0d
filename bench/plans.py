"""The plans of the bench's runs."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell_client import Task

REST = "rest"
"""Name of the last part of a gated plan."""


def chain(count: int, name: str = "t", after: Iterable[str] = ()) -> list[Task]:
    """Tasks that follow one another, the first of them after all of these."""
    return [
        Task(f"{name}{n}", depends_on=[f"{name}{n - 1}"] if n else list(after))
        for n in range(count)
    ]


def independent(count: int, name: str = "t") -> list[Task]:
    """Tasks that wait for nothing."""
    return [Task(f"{name}{n}") for n in range(count)]


def paced(count: int, per_second: float) -> list[Task]:
    """Tasks that end one after another at a rate, all of them behind a gate; none waits for another."""
    return [
        Task("gate", type="gate"),
        *(
            Task(f"t{n}", type="paced", depends_on=["gate"], input=n / per_second)
            for n in range(count)
        ),
    ]


def gated(parts: int, steps: int, rest: int) -> list[Task]:
    """Parts of so many tasks in a row, each behind a gate, and a rest behind one more."""
    tasks: list[Task] = []
    for name, count in [*((f"p{part}", steps) for part in range(parts)), (REST, rest)]:
        before = [tasks[-1].id] if tasks else []
        tasks.append(Task(f"gate-{name}", type="gate", depends_on=before))
        tasks += chain(count, f"{name}-", after=[f"gate-{name}"])
    return tasks
