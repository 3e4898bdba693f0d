"""Records of what happens in runs: events, questions, messages, log and journal entries; and of a server."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell_client.enums import (
    Durability,
    Effect,
    EventType,
    ExpiryAction,
    JournalMark,
    LogKind,
    QuestionKind,
    QuestionStatus,
)
from stepwell_client.records.parts import FailureRecord, Record, Session, Usage
from stepwell_client.records.payloads import Payload


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Question(Record):
    """A question of a run to a person."""

    id: str = ""
    """The question's id, unique within its run; `answer` takes it as `question_id`."""
    run_id: str = ""
    """The run that asks."""
    task_id: str = ""
    """The task that asks. Empty: another kind of step asks."""
    execution_id: str = field(default="", repr=False)
    """The attempt that asked."""
    kind: QuestionKind = QuestionKind.UNSPECIFIED
    """The kind of answer."""
    prompt: str = ""
    """The question."""
    schema: str = ""
    """A JSON schema for the answer, as text. Empty: anything."""
    choices: tuple[str, ...] = ()
    """The choices."""
    status: QuestionStatus = QuestionStatus.UNSPECIFIED
    """The question's status."""
    expires: datetime.timedelta | None = None
    """The time from the question to its expiry. None: never."""
    on_expiry: ExpiryAction = ExpiryAction.UNSPECIFIED
    """The consequence of its expiry."""
    answer: Payload | None = None
    """The answer, once there is one: `answer.value`."""
    answered_by: str = ""
    """The name of whoever answered."""
    created_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was asked."""
    ended_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was answered, or ended otherwise."""
    call: str = ""
    """The asking call, by its key within its step's journal. Empty: the attempt ended by asking."""
    arguments: str = field(default="", repr=False)
    """With `call`: the digest of the question."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Event(Record):
    """An event of a run, with all that it changed."""

    number: int = 0
    """1, 2, 3 … without gaps, per run."""
    version: int = field(default=0, repr=False)
    """The run's version whose commit contains it."""
    type: EventType = EventType.UNSPECIFIED
    """The type of the event."""
    time: datetime.datetime | None = None
    """The time, for people; events are ordered by number."""
    task_id: str = ""
    """The task that it is about; empty if none."""
    execution_id: str = ""
    """The execution that it is about; empty if none."""
    question_id: str = ""
    """The question that it is about; empty if none."""
    message: str = ""
    """A reason in words; empty if none."""
    plan_revision: int = 0
    """With PLAN_ACCEPTED: the revision of the plan whose tasks were added to the run's."""
    actor: str = ""
    """The caller whose command caused it, by the credential. Empty: no command did."""
    on_behalf_of: str = ""
    """The name on whose behalf that caller acted."""
    run: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The changed fields of the run, by their names in `Run`. None: the field was cleared."""
    tasks: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict[str, Mapping[str, Any]], repr=False
    )
    """The changed fields of tasks, by task id, then by their names in `RunTask`."""
    executions: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict[str, Mapping[str, Any]], repr=False
    )
    """The changed fields of executions, by execution id, then by their names in `Execution`."""
    questions: tuple[Question, ...] = field(default=(), repr=False)
    """The changed questions, with all their fields."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Message(Record):
    """A message of a task's conversation."""

    role: str = ""
    """The speaker: `user`, `assistant`, `tool` or what the agent calls them."""
    content: str = ""
    """The text."""
    task_id: str = ""
    """The task that it belongs to."""
    execution_id: str = field(default="", repr=False)
    """The attempt that appended it."""
    session: Session | None = field(default=None, repr=False)
    """The agent's own conversation that it belongs to."""
    number: int = 0
    """1, 2, 3 … without gaps within its task's conversation."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LogEntry(Record):
    """A line, or a piece of output, that a step wrote."""

    text: str = ""
    """The line, or the piece."""
    kind: LogKind = LogKind.UNSPECIFIED
    """The kind of entry."""
    level: str = ""
    """DEBUG, INFO, WARNING, ERROR or what the worker calls them."""
    execution_id: str = ""
    """The attempt that wrote it."""
    written_time: datetime.datetime | None = None
    """The time when it was written."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JournalEntry(Record):
    """An entry of a step's journal: what a call within the step recorded."""

    key: str = ""
    """The call's key within its step."""
    mark: JournalMark = JournalMark.UNSPECIFIED
    """The part of the call that it records."""
    number: int = 0
    """The run of the call's function, from 1 over all attempts; only in a BEGIN or a TRY."""
    name: str = ""
    """The call's name."""
    arguments: str = field(default="", repr=False)
    """A digest of the call's arguments."""
    effect: Effect = Effect.UNSPECIFIED
    """The rule for repeating the call when its outcome is unknown."""
    value: Payload | None = None
    """The value of an END, if it was requested by `values`."""
    size: int = 0
    """The size of the value in bytes, also if the value was left out."""
    failure: FailureRecord | None = None
    """The exception of a TRY."""
    attempt: int = 0
    """The attempt that made a TRY."""
    usage: Usage = field(default_factory=Usage)
    """The tokens and the cost of the call, without those of inner calls."""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """The messages that it adds to the task's conversation."""
    took: datetime.timedelta | None = None
    """The time that the function took."""
    sleep: datetime.timedelta | None = None
    """The length of the sleep of a WAIT."""
    until_time: datetime.datetime | None = None
    """The end of the sleep of a WAIT."""
    journal: str = field(default="", repr=False)
    """The journal's name within its run, such as `task:ID@REVISION`."""
    generation: int = field(default=0, repr=False)
    """The generation of the journal, from 1."""
    execution_id: str = field(default="", repr=False)
    """The attempt that wrote it. Empty: it came with an answer or a finding."""
    version: int = field(default=0, repr=False)
    """The run's version when it was written."""
    written_time: datetime.datetime | None = field(default=None, repr=False)
    """The time when it was written."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StoreInfo(Record):
    """A server's store."""

    driver: str = ""
    """The driver's name, as in the URL's scheme."""
    durability: Durability = Durability.UNSPECIFIED
    """The failures that an acknowledged commit survives."""
    detail: str = ""
    """The reason for that class, in words."""
    schema_version: str = field(default="", repr=False)
    """The version of its schema."""
    store_id: str = field(default="", repr=False)
    """A random id from the store's creation, which tells stores apart."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServerInfo(Record):
    """A server, and how it sees the caller."""

    version: str = ""
    """The service's version."""
    protocol_revision: int = 0
    """The revision of the protocol that it speaks."""
    features: tuple[str, ...] = ()
    """The names of features beyond that revision."""
    store: StoreInfo = field(default_factory=StoreInfo)
    """Its store."""
    subject: str = ""
    """The caller, by its credential."""
    tenant_id: str = ""
    """The tenant whose runs the caller sees."""
    scopes: tuple[str, ...] = ()
    """The scopes of the caller."""
    limits: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    """The limits of requests, by name."""
    replica_id: str = field(default="", repr=False)
    """The replica that answered."""
    console_address: str = ""
    """The address of its web console on its own machine. Empty: it has none."""
    server_time: datetime.datetime | None = field(default=None, repr=False)
    """The server's time."""
