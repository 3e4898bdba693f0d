"""Rows in which every field has an odd value other than its default."""

from __future__ import annotations

from enum import Enum
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import FieldInfo, fields, replace

from stepwell.core.port import Commit
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.events import Event, ExecutionChange, RunChange, TaskChange
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import (
    Execution,
    Message,
    Outcome,
    Payload,
    Plan,
    Question,
    RequestRecord,
    Run,
    RunSpec,
    Task,
    TaskSpec,
)
from stepwell.core.records.record import UNKNOWN
from stepwell.core.records.states import EventType, ExecutionStatus, QuestionStatus, RunStatus
from stepwell_testkit.conformance import builders as b

BEYOND_FLOAT = 2**53 + 1
LARGEST_COUNT = 2**31 - 1
"""The largest count or number within a run."""
LARGEST = 2**63 - 1
ODD = "\x01 \u202e \U0001f600 é e\u0301 \r\n \t ' \" \\ {} %s \x7f"
NAME = "0dd:n@me/../a--b+c_d.E"
PARENT = "the:parent/../@0-1"
"""Ends as the usual run's id does, as a parent of forks must."""
NAMES = frozenset(
    {
        *("queue", "type", "role", "pin", "worker_id", "pipeline_id", "executor_id", "run_id"),
        *("on_behalf_of", "result_run_id", "key_run_id", "blocked_run_id"),
    }
)
"""Fields whose text is a name of the port."""
_WIDE = ("_ms", "_tokens", "_micros", "digest")
"""Ends of the names of numbers that may be larger than a count."""

R = TypeVar("R", bound=msgspec.Struct)


def odd(record: type[R], **known: object) -> R:
    """Return a record with an odd value in each field whose value is not given."""
    return record(**{**_odd_values(record, (record,)), **known})


def _odd_values(record: type[msgspec.Struct], within: tuple[type, ...]) -> dict[str, object]:
    return {
        one.name: _odd(_type_of(one), one.name, one.default, within)
        for one in fields(record)
        if one.name != UNKNOWN
    }


def _empty(record: type[R], **known: object) -> R:
    """Return a change in which each field is set, to the empty value of its type."""
    values = {
        one.name: next(iter(_type_of(one)))
        if issubclass(_class_of(_type_of(one)), Enum)
        else _class_of(_type_of(one))()
        for one in fields(record)
        if one.default is UNSET
    }
    return record(**{**values, **known})


def _type_of(field: FieldInfo) -> Any:
    """Return the type of a field that is set."""
    kinds = [one for one in get_args(field.type) if one not in {NoneType, UnsetType}]
    is_union = len(kinds) < len(get_args(field.type))
    return kinds[0] if is_union else field.type


def _class_of(kind: Any) -> type[Any]:
    return get_origin(kind) or kind


def _odd(kind: Any, name: str, default: object, within: tuple[type, ...]) -> object:
    of = _class_of(kind)
    if issubclass(of, msgspec.Struct):
        if of in within:  # A task may be a child run, which has tasks.
            return None
        return of(**_odd_values(of, (*within, of)))
    if issubclass(of, Enum):
        return [one for one in of if one is not default][-1]
    if of is tuple:
        item = get_args(kind)[0]
        if item in within:
            return ()
        return (ODD, "", "x") if item is str else (_odd(item, name, None, within),)
    numbers = LARGEST if name.endswith("_us") else BEYOND_FLOAT
    if of is dict and get_args(kind)[1] is int:
        return {ODD: LARGEST_COUNT}
    return {
        bool: default is not True,
        int: numbers if name.endswith(("_us", *_WIDE)) else LARGEST_COUNT,
        float: -0.0 if name == "jitter" else 1.1,
        str: NAME if name in NAMES else ODD,
        bytes: bytes(range(256)),
        dict: {ODD: ODD, "": "", "a.b": '"c"', "$": "[0]"},
    }[of]


def parent_commit() -> Commit:
    """Return the first commit of the run that `full_commit` is forked from."""
    return b.created(PARENT)


def full_commit() -> Commit:
    """Return a first commit in which every field of every row differs from its default."""
    spec = odd(
        RunSpec,
        tenant_id=b.TENANT,
        run_id=b.RUN,
        goal=ODD * 1_000,
        parent_run_id=PARENT,
        family_id=PARENT,
        priority=-100,
    )
    events = odd_events()
    run = odd(Run, spec=spec, version=1, last_event=len(events), status=RunStatus.PAUSED)
    specs = (
        odd(TaskSpec, depends_on=("z", "a", ODD)),
        TaskSpec(task_id="a", input=Payload(data=b"")),
        TaskSpec(task_id="z"),
    )
    return replace(
        b.created(input=Payload(data=b"\x00\xff", media_type=ODD)),
        commit_id=ODD,
        run=run,
        plan=odd(Plan, revision=2, tasks=specs),
        tasks=(odd(Task, revision=2), Task(task_id="a", revision=2)),
        executions=(odd(Execution, status=ExecutionStatus.UNKNOWN_OUTCOME, priority=-100),),
        outcomes=(odd(Outcome, result=Payload()),),
        questions=(odd(Question, status=QuestionStatus.OPEN),),
        events=events,
        messages=(odd(Message), Message(role="", content="")),
        request=odd(RequestRecord),
        checkpoint=odd(Checkpoint, version=1),
    )


def odd_entry() -> Entry:
    """Return a journal entry in which every field is odd."""
    return odd(Entry, messages=(odd(Message), Message(role="user", content="")), sleep_ms=7)


def odd_events() -> tuple[Event, ...]:
    """Return three events: one with all fields, one whose changes are to empty values, one with nearly nothing."""
    full = odd(Event, number=1, version=1)
    emptied = Event(
        number=2,
        version=1,
        type=EventType.PLAN_ACCEPTED,
        run=_empty(RunChange),
        tasks=(_empty(TaskChange, task_id=ODD), TaskChange(task_id="x")),
        executions=(_empty(ExecutionChange, execution_id=ODD),),
    )
    return full, emptied, Event(number=3, version=1, type=EventType.RUN_STARTED)
