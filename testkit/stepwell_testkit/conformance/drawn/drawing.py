"""Strategies by which Hypothesis draws calls.

A failure shrinks to the first value of each range. The fields of a record are drawn as one number
with a digit for each field, because a program has some hundred records and a draw costs more than
many store calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import TypeVar

from hypothesis import strategies as st

from stepwell.core.port import NOBODY, EntryWrite, Presence, Reservation, Timer, Want
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import LogEntry, Message, Payload, Question, Session, Usage
from stepwell.core.records.states import (
    BlockedKind,
    Effect,
    ExecutionStatus,
    JournalMark,
    LogKind,
    QuestionStatus,
    RunStatus,
    TaskStatus,
)
from stepwell_testkit.conformance.drawn.calls import Base, Call, Change, Check, Row, Swap
from stepwell_testkit.conformance.drawn.making import ENDS
from stepwell_testkit.conformance.drawn.names import (
    CALLS,
    EXECUTIONS,
    EXECUTORS,
    HALF_MS,
    JOURNALS,
    KEYS,
    KINDS,
    LABELS,
    PAYLOADS,
    PERIOD_MS,
    PINS,
    PIPELINES,
    QUESTIONS,
    QUEUES,
    QUEUES_WANTED,
    ROLES,
    RUNS,
    TASKS,
    TASKS_WANTED,
    TEXTS,
    TIMERS,
    VERSIONS,
    WORKERS,
)

T = TypeVar("T")
Strategy = st.SearchStrategy


def record(make: Callable[..., T], **fields: Sequence[object] | Strategy[object]) -> Strategy[T]:
    """Draw a record: the fields with choices by one number, then the fields with strategies."""
    choices = {name: one for name, one in fields.items() if not isinstance(one, Strategy)}
    rows = {name: one for name, one in fields.items() if isinstance(one, Strategy)}

    def made(number: int, more: dict[str, object]) -> T:
        values = dict(more)
        for name, among in choices.items():
            number, index = divmod(number, len(among))
            values[name] = among[index]
        return make(**values)

    numbers = st.integers(0, prod(len(among) for among in choices.values()) - 1)
    if not rows:
        return numbers.map(lambda number: made(number, {}))
    return st.builds(made, numbers, st.fixed_dictionaries(rows))


def few(one: Strategy[T], most: int, least: int = 0) -> Strategy[tuple[T, ...]]:
    """Draw a tuple of `least` to `most` items."""
    return st.lists(one, min_size=least, max_size=most).map(tuple)


YES_OR_NO = (False, True)
# Mostly in one place, because many errors need several calls about one run.
TENANT = (0, 0, 0, 1)
RUN = (RUNS[0], *RUNS)
LIMITS = range(1, 6)
# Durations that end between two moments at which a program looks.
SHORT_MS, LONG_MS, LONGEST_MS = (periods * PERIOD_MS + HALF_MS for periods in range(3))
NAMES = tuple(named.execution_id for named in EXECUTIONS)
MORE_LIMITS = (1_000, 1_000, 0, 1, 2)


def _task(task: int, status: TaskStatus) -> tuple[int, TaskStatus]:
    return task, status


def _question(question_id: str, status: QuestionStatus) -> Question:
    answer = Payload(data=b"\x00yes") if status is QuestionStatus.ANSWERED else None
    prompt = f"about {question_id}"
    return Question(
        question_id=question_id, task_id=TASKS[0], prompt=prompt, status=status, answer=answer
    )


def _message(task_id: str, text: str) -> Message:
    session = Session(backend=text, session_id="s")
    return Message(
        role="assistant", content=text, task_id=task_id, execution_id=NAMES[0], session=session
    )


def _want(tenant: int, **fields: object) -> tuple[int, Want]:
    return tenant, Want(tenant_id="", **fields)  # pyright: ignore[reportArgumentType] - its own choices


checks = record(
    Check,
    lease=(0, 0, 0, 1, 2, 5),
    right=(True, True, False),
    recorded=(None, None, 0, 0, 0, 1, -1),
)
entries = record(
    Entry,
    key=CALLS,
    mark=(JournalMark.END, *JournalMark),
    number=(0, 0, 1),
    effect=(*Effect, Effect.IDEMPOTENT),
    value=PAYLOADS[:4],
    usage=(Usage(), Usage(input_tokens=1, cost_micros=2, model="m")),
    sleep_ms=(0, SHORT_MS),
)
writes = record(EntryWrite, journal=JOURNALS, generation=(1, 1, 2, 3), entry=entries)
executions = record(
    Row,
    named=EXECUTIONS,
    # READY and LEASED are the most important states for a store.
    status=(*list(ExecutionStatus)[:2] * 3, *list(ExecutionStatus)[2:]),
    lease_ms=(SHORT_MS, LONG_MS, LONG_MS, 0),
    result=range(6),
    delay_ms=(0, 0, SHORT_MS, LONG_MS, LONGEST_MS),
    queue=QUEUES,
    type=ROLES,
    role=ROLES,
    pin=PINS,
    priority=(0, -1, 1),
    worker_id=WORKERS,
    limit_ms=(0, SHORT_MS, LONG_MS, LONG_MS),
)
change_of = partial(
    record,
    Change,
    tenant=TENANT,
    run=RUN,
    parent=("", "", RUNS[0], "", RUNS[1], ""),
    events=(1, 0, 2, 3, 4),
    plan=(0, 0, 0, 1, 3, 4),
    checkpoint=(0, 0, 0, 0, 1, 2, 3),
    status=tuple(RunStatus),
    text=range(len(TEXTS)),
    kind=range(12),
    request=YES_OR_NO,
    payload=range(len(PAYLOADS)),
    tasks=few(record(_task, task=range(6), status=tuple(TaskStatus)), 2),
    executions=few(executions, 3),
    fences=few(checks, 1),
    timers=few(record(Timer, name=TIMERS, delay_ms=(0, SHORT_MS, LONG_MS, LONG_MS, -1)), 2),
    questions=few(record(_question, question_id=QUESTIONS, status=tuple(QuestionStatus)), 1),
    entries=few(writes, 1),
    forgotten=few(writes, 1),
    messages=few(record(_message, task_id=("", *TASKS[:2]), text=TEXTS), 2),
)
BASES = (Base.NEXT, Base.NEXT, Base.AGAIN, Base.STALE, Base.AHEAD, Base.CREATE, Base.AGAIN)
of_any_base = change_of(base=st.sampled_from(BASES), back=st.sampled_from((0, 1, 0, 2, 7)))
again = record(Change, base=(Base.AGAIN,), back=range(21))
wants = record(
    _want,
    tenant=TENANT,
    queues=(QUEUES_WANTED[0], QUEUES_WANTED[0], *QUEUES_WANTED),
    kinds=(KINDS[0], *KINDS),
    tasks=(TASKS_WANTED[0], TASKS_WANTED[0], *TASKS_WANTED),
    version=VERSIONS,
    limit=MORE_LIMITS,
)
lines = record(
    LogEntry,
    execution_id=(*NAMES[:1] * 3, NAMES[1], NAMES[2], NAMES[6]),
    text=TEXTS,
    level=("INFO", "", "é"),
    kind=tuple(LogKind),
    written_us=range(3),
)
RESERVED = tuple(Reservation(run_id=run, commit_id=name) for run in RUNS for name in ("c", "c\x01"))
swaps = record(
    Swap,
    key=KEYS,
    right=(True, True, False),
    before=(NOBODY, *RESERVED),
    after=(*RESERVED, NOBODY),
)
workers = record(
    Presence,
    tenant_id=("",),
    worker_id=WORKERS,
    instance_id=("instance-0", "instance-1"),
    replica_id=TEXTS,
    queues=[(queue,) for queue in QUEUES],
    tasks=TASKS_WANTED,
    version=VERSIONS,
    kinds=KINDS,
    credits=range(8),
    subject=TEXTS,
    connected_us=range(3),
    draining=(False, True),
    lapses=range(3),
)

HERE = {"tenant": TENANT, "run": RUN}
QUERIES: tuple[dict[str, Sequence[object]], ...] = (
    {**HERE, "kind": ("TaskQuery",)},
    {**HERE, "kind": ("ExecutionQuery",), "task_id": ("", *TASKS[:3])},
    {**HERE, "kind": ("MessageQuery",), "task_id": ("", *TASKS[:3])},
    {**HERE, "kind": ("CheckpointQuery",)},
    {**HERE, "kind": ("LogQuery",), "execution_id": ("", *NAMES[:3])},
    {
        **HERE,
        "kind": ("JournalQuery",),
        "journal": ("", *JOURNALS),
        "generation": range(4),
        "version": (0, 0, 2, 4),
        "names_only": YES_OR_NO,
        "bytes_limit": (2**20, 0, 300),
    },
    {"tenant": TENANT, "kind": ("QuestionQuery",), "run": ("", *RUN)},
    {"tenant": TENANT, "kind": ("QuestionQuery",)},
)
FILTERS: tuple[dict[str, Sequence[object]], ...] = (
    {},
    {"statuses": [(one, list(RunStatus)[at - 2]) for at, one in enumerate(RunStatus)]},
    {"pipeline_id": PIPELINES},
    {"queue": QUEUES},
    {"executor_id": EXECUTORS},
    {"labels": LABELS},
    {"blocked_on": [(one,) for one in BlockedKind]},
    {"parent_run_id": RUNS},
)
ANCIENT_MS = 2**45
"""Before 1970."""

TABLE: tuple[tuple[int, str, Mapping[str, Sequence[object] | Strategy[object]]], ...] = (
    (28, "commit", {"changes": st.tuples(change_of())}),
    (12, "commit", {"changes": few(of_any_base, 5, 1)}),
    (4, "commit", {"changes": few(again, 3, 1)}),
    (
        8,
        "renew",
        {
            "lease_ms": (SHORT_MS, LONG_MS, LONG_MS, LONGEST_MS),
            "progress": PAYLOADS,
            "session": (Session(), Session(backend="x\x01", session_id="s")),
            "beats": few(checks, 3, 1),
        },
    ),
    (
        10,
        "record",
        {
            "lease": checks,
            "journal": JOURNALS,
            "generation": (1, 1, 1, 2, 3),
            "entries": few(entries, 3),
            "forget_number": (0, 0, 1, 2, 3),
        },
    ),
    (14, "claim", {"due_limit": MORE_LIMITS, "hold": YES_OR_NO, "wants": few(wants, 3)}),
    (8, "wait", {"periods": range(1, 4)}),
    (12, "load", {**HERE, "since": (1, 0, 2, 3, 4, 6, 9)}),
    (6, "read_by_key", HERE),
    (4, "read_events", {**HERE, "after": range(16), "limit": range(1, 10)}),
    *((2, "page", {**fields, "limit": LIMITS}) for fields in QUERIES),
    *(
        (1, "page", {"tenant": TENANT, "kind": ("RunQuery",), "limit": LIMITS, **fields})
        for fields in FILTERS
    ),
    (4, "page", {"tenant": TENANT, "kind": ("LeaseQuery",), "worker_id": WORKERS}),
    (
        4,
        "page",
        {
            "tenant": TENANT,
            "kind": ("EndedQuery",),
            "statuses": (*((end,) for end in ENDS), ENDS, ENDS, ENDS),
            "pipeline_id": PIPELINES,
            "older_ms": (0, 0, 0, ANCIENT_MS),
            "limit": LIMITS,
        },
    ),
    (2, "nonsense", {"what": range(8)}),
    (
        6,
        "swap_keys",
        {"tenant": TENANT, "pipeline_id": (*PIPELINES, *PIPELINES[:2]), "swaps": few(swaps, 4, 1)},
    ),
    (6, "feed", {"reader": range(2), "limit": range(1, 10), "to_the_end": (True, False)}),
    (6, "append_logs", {**HERE, "entries": few(lines, 3, 1)}),
    (4, "trim_logs", {**HERE, "execution_id": (*NAMES[:1] * 3, NAMES[1]), "kind": tuple(LogKind)}),
    (4, "purge_logs", {"older_ms": (LONG_MS, SHORT_MS, LONGEST_MS), "limit": (1_000, 1, 2, 5)}),
    (4, "read_on", {**HERE, "execution_id": ("", NAMES[0]), "limit": LIMITS}),
    (4, "delete", {**HERE, "off": (0, 0, 1, -1)}),
    (
        4,
        "put_presence",
        {"tenant": TENANT, "ttl_ms": (SHORT_MS, 0, LONG_MS), "presences": few(workers, 3)},
    ),
    # Some stores take a second to reopen.
    (2, "reopen", {}),
)


def _calls(
    method: str, fields: Mapping[str, Sequence[object] | Strategy[object]]
) -> Strategy[Call]:
    def call(via: int, **arguments: object) -> Call:
        return Call(method=method, via=via, arguments=arguments)

    return record(call, via=range(2), **fields)


commit_calls = _calls("commit", {"changes": st.tuples(change_of())})
_STRATEGIES = [one for weight, method, fields in TABLE for one in [_calls(method, fields)] * weight]
any_calls = st.integers(0, len(_STRATEGIES) - 1).flatmap(_STRATEGIES.__getitem__)
"""Not rules of a machine or one_of, which draw each kind equally often, or omit most kinds."""
