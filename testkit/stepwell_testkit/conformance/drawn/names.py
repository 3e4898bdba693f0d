"""The values of the numbers in a program's calls."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.core.records.model import Payload
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.states import StepKind

EPOCH_US = 1_700_000_000_000_000
PERIOD_MS = 20_000
"""The step by which time passes. Deadlines lie in the middle between two such moments, so a store
whose clock runs by itself may lag half of this behind the reference."""
HALF_MS = PERIOD_MS // 2
PASSED_MS_MAX = 3_000_000
"""Less than the hour after which a tombstone may be gone."""
HOLD_MS = HALF_MS

TEXTS = (
    "",
    "plain",
    "a\x01\x01\x02b\\u0000",
    "}{:%s *?",
    "\u202e é e\u0301 \U0001f600",
    "0",
    "../x",
    " \r\n\t'\"\\",
)
QUEUES = ("default", "q2", "q:@/..+")
ROLES = ("", "coder", "r:@/.._")
PIPELINES = ("", "p1", "p1:_")
EXECUTORS = ("", "me")
LABELS: tuple[dict[str, str], ...] = (
    {},
    {"k": "v"},
    {"k": "v", "other": ""},
    {"k": "w", "a.b": '"c"', "$": "é"},
)
KINDS = (tuple(StepKind), (StepKind.TASK,), (StepKind.PLAN, StepKind.REFLECT))
PINS = ("", "=v", ">000000000000000001")
VERSIONS = ("", "v", "1.1", "0.9")
TASKS_WANTED: tuple[tuple[TaskPattern, ...], ...] = (
    (),
    (TaskPattern(),),
    (TaskPattern(type="*", role=ROLES[1]),),
    tuple(TaskPattern(type=ROLES[1], role=role) for role in ("*", *ROLES[1:])),
)
QUEUES_WANTED: tuple[tuple[str, ...], ...] = (QUEUES, *((queue,) for queue in QUEUES), QUEUES[1:])
RUNS = ("r1", "r2:/..@-r1", "00000000-0000-4000-8000-000000000003")
"""The first two may be forks of each other, by the endings of their ids."""
WORKERS = ("worker", "worker:@")
TIMERS = ("timer", "expiry:p", "t\x01}{")
QUESTIONS = ("p", "q\x01")
TASKS = ("a", "b", "c", "d\x01}{")
KEYS = ("k", "k\x01}{:", "key 3")
JOURNALS = ("task:a@1", "plan@0\x01}{")
CALLS = ("c", "c\x01}{:")
NONSENSE = "~no store made this~"

PAYLOADS: tuple[Payload | None, ...] = (
    None,
    Payload(data=b"{}"),
    Payload(data=b""),
    Payload(data=bytes(range(256)), media_type="application/octet-stream"),
    Payload(data=b"\x00"),
    Payload(data=b"\xff\x00\xfe" * 2_000, media_type="x/\x01"),
)


class Named(NamedTuple):
    """An execution's name, with its unchanging fields."""

    execution_id: str
    kind: StepKind
    task_id: str = ""


EXECUTIONS = (
    Named("task:a#1", StepKind.TASK, "a"),
    Named("task:a#2", StepKind.TASK, "a"),
    Named("task:b#1", StepKind.TASK, "b"),
    Named("plan:1#1", StepKind.PLAN),
    Named("reflect:1#1", StepKind.REFLECT),
    Named("synthesize:1#1", StepKind.SYNTHESIZE),
    Named("task:d\x01}{#1", StepKind.TASK, "d\x01}{"),
    Named("task:a#10", StepKind.TASK, "a"),
)


def tenants_of(number: int) -> tuple[str, str]:
    """Return the tenants of a program, which no other program has; one has a hostile name."""
    return f"p{number}", f"p{number}:/..@"
