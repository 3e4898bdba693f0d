"""The table of the bench: every work, its figures in words and units, and the goals, which stand nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Goal(NamedTuple):
    """A bound that a median has to keep."""

    bound: float
    most: bool
    """The figure may be at most this, and not at least."""

    def met(self, value: float) -> bool:
        """Return whether a figure keeps it."""
        return value <= self.bound if self.most else value >= self.bound


def most(bound: float) -> Goal:
    """Return the goal of a figure that is better the smaller it is."""
    return Goal(bound, most=True)


def least(bound: float) -> Goal:
    """Return the goal of a figure that is better the larger it is."""
    return Goal(bound, most=False)


class Line(NamedTuple):
    """One figure of a work."""

    figure: str
    """The name of the record's field."""
    words: str
    unit: str
    goals: Mapping[str, Goal] = MappingProxyType({})
    """Goal by store; that of "" holds for all others."""

    def goal(self, store: str) -> Goal | None:
        """Return the goal on a store, if there is one."""
        return self.goals.get(store, self.goals.get(""))


class Section(NamedTuple):
    """The figures of one work."""

    work: str
    title: str
    lines: tuple[Line, ...]
    note: str = ""


TABLE = (
    Section(
        "limits",
        "Limits of this machine and of the databases by themselves",
        (
            Line("fsyncs", "appends of 4 KiB with fsync, one by one", "/s"),
            Line("sqlite_commits", "SQLite, commits of 1 KiB, one by one", "/s"),
            Line("pgbench_1", "pgbench, commits of 1 KiB, 1 client", "/s"),
            Line("pgbench_16", "pgbench, commits of 1 KiB, 16 clients", "/s"),
            Line("redis_1", "Redis `always`, writes of 1 KiB, one by one", "/s"),
            Line("redis_64", "Redis `always`, 64 writes to a round trip", "/s"),
        ),
    ),
    Section(
        "chains",
        "64 runs at once, each 50 steps in sequence, 1 KiB a step",
        (
            Line(
                "steps_per_second",
                "speed",
                "steps/s",
                {
                    "sqlite": least(5_000),
                    "redis": least(4_500),
                    "postgres": least(3_500),
                    "memory": least(7_000),
                },
            ),
            Line(
                "cpu_us",
                "CPU of a step, all processes",
                "µs",
                {"sqlite": most(270), "memory": most(180)},
            ),
            Line("server_us", "… of it the server", "µs"),
            Line("worker_us", "… the worker", "µs"),
            Line("client_us", "… the client", "µs"),
            Line("database_us", "… the database", "µs"),
            Line("stored_kib", "stored of a step, indexes included", "KiB", {"": most(2.0)}),
        ),
    ),
    Section(
        "lone",
        "One run, step after step: from a step's outcome to the start of the next",
        (
            Line(
                "p50_ms",
                "p50",
                "ms",
                {"sqlite": most(1.0), "redis": most(1.0), "postgres": most(1.3)},
            ),
            Line("p99_ms", "p99", "ms"),
            Line("p99_by_p50", "p99 by p50", "×", {"": most(5)}),
        ),
    ),
    Section(
        "calls",
        "64 runs at once, each a task with 50 calls in sequence, 1 KiB a call",
        (
            Line("calls_per_second", "speed", "calls/s", {"sqlite": least(7_000)}),
            Line("cpu_us", "CPU of a call, all processes", "µs", {"sqlite": most(240)}),
            Line("server_us", "… of it the server", "µs", {"sqlite": most(120)}),
            Line("worker_us", "… the worker", "µs"),
            Line("database_us", "… the database", "µs"),
            Line("stored_kib", "stored of a call, indexes included", "KiB", {"": most(1.3)}),
            Line("lone_ms", "one run, call after call: p50", "ms", {"sqlite": most(0.8)}),
            Line("lone_p99_ms", "… p99", "ms"),
            Line(
                "back_ms",
                "a step with 1,000 calls is handed out again and has them",
                "ms",
                {"": most(50)},
            ),
        ),
    ),
    Section(
        "wide",
        "One run of 500 independent tasks, 32 at once",
        (Line("steps_per_second", "speed", "steps/s", {"": least(5_000)}),),
        note="The goal is for SQLite; the others are held to the same.",
    ),
    Section(
        "starts",
        "StartRun",
        (
            Line("one_ms", "50 tasks, one call after another: server's CPU", "ms", {"": most(1)}),
            Line("together_ms", "50 tasks, 64 calls at once: server's CPU", "ms", {"": most(1)}),
            Line("large_ms", "10,000 tasks: server's CPU", "ms", {"": most(150)}),
            Line("held_ms", "10,000 tasks: longest wait of another call", "ms", {"": most(20)}),
        ),
        note="Without a worker: what is measured is the start alone.",
    ),
    Section(
        "talks",
        "Runs that talk: signals and child runs",
        (
            Line(
                "signal_ms",
                "a signal to a suspended step until its function runs again: p50",
                "ms",
                {"sqlite": most(4), "": most(6)},
            ),
            Line("signal_p99_ms", "… p99", "ms"),
            Line(
                "child_ms",
                "a child run of one task, from its start to the parent's going on: p50",
                "ms",
                {"sqlite": most(8)},
            ),
            Line("child_p99_ms", "… p99", "ms"),
            Line("children_s", "1,000 children of one parent at once", "s", {"": most(3)}),
        ),
    ),
    Section(
        "long",
        "One run with 10,000 steps done, and kill -9 of its server",
        (
            Line("growth", "a step at 10,000 done against one at 100", "×", {"": most(1.05)}),
            Line("listening_ms", "process start to listening", "ms", {"": most(600)}),
            Line("welcomed_ms", "listening to worker welcomed", "ms", {"": most(300)}),
            Line("first_step_ms", "worker welcomed to first new step", "ms", {"": most(100)}),
        ),
        note="The plan of 10,000 tasks is followed by one of 1,000, in which the server is killed.",
    ),
    Section(
        "watch",
        "1,000 streams that watch one run, 100 events/s",
        (
            Line("wrong", "streams with an event too few or too many", "", {"": most(0)}),
            Line("p99_ms", "from the decision to a reader: p99", "ms", {"": most(250)}),
            Line("p50_ms", "from the decision to a reader: p50", "ms"),
            Line("peak_mb", "most memory of the server", "MB", {"": most(300)}),
            Line("events_per_second", "events really made", "/s"),
            Line("messages_per_second", "messages to one stream", "/s"),
            Line("cpu_us", "server's CPU for an event to one stream", "µs"),
        ),
    ),
    Section(
        "parked",
        "100,000 parked runs, against an empty store",
        (
            Line("claim", "a claim that finds nothing", "×", {"": most(1.2)}),
            Line("start", "StartRun", "×", {"": most(1.2)}),
            Line("claim_ms", "a claim, beside the parked runs", "ms"),
            Line("start_ms", "StartRun, beside the parked runs", "ms"),
            Line("resident", "memory of the server", "×", {"": most(1.2)}),
        ),
        note='The goal "memory flat" is taken as at most 1.2 ×.',
    ),
    Section(
        "threads",
        "10,000 idle threads, against an empty store",
        (
            Line("claim", "a claim that finds nothing", "×", {"": most(1.2)}),
            Line("claim_ms", "a claim, beside the idle threads", "ms"),
        ),
        note="Each thread has had one run, which has ended.",
    ),
    Section(
        "overload",
        "More runs offered than can be done",
        (
            Line("peak", "peak, 64 runs of 50 steps at any time", "steps/s"),
            Line("twice", "goodput at 2 × the peak, by the peak", "×", {"": least(0.8)}),
            Line("five_times", "goodput at 5 × the peak, by the peak", "×", {"": least(0.8)}),
            Line("offered", "what was offered at 5 ×, by the peak", "×"),
            Line("leases_lost", "leases lost", "", {"": most(0)}),
        ),
        note="Leases are of 3 seconds here.",
    ),
    Section(
        "replicas",
        "One run of 500 independent tasks on three replicas, against one",
        (Line("ratio", "speed", "×"),),
    ),
)
