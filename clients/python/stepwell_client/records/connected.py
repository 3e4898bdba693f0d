"""Records of what is connected to the service: workers, what they hold, and the queues that they serve."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from stepwell_client.enums import StepKind
from stepwell_client.records.parts import Record
from stepwell_client.records.payloads import Payload


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskPattern(Record):
    """Steps that a worker does, by type and role; `*` is any, and an empty one means those without."""

    kind: StepKind = StepKind.TASK
    """TASK or RECONCILE."""
    type: str = ""
    """The type of the tasks."""
    role: str = ""
    """The role of the tasks."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldStep(Record):
    """A step that a worker holds."""

    run_id: str = ""
    """The run."""
    execution_id: str = ""
    """The execution."""
    progress: Payload | None = None
    """The last that a heartbeat brought. None: none did, or the workers of more than one run were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConnectedWorker(Record):
    """A worker that is connected, and what it holds."""

    worker_id: str = ""
    """The worker's id, which it keeps when it starts again."""
    instance_id: str = field(default="", repr=False)
    """Which instance of it: another one after each start."""
    replica_id: str = field(default="", repr=False)
    """The replica that it is connected to."""
    subject: str = ""
    """Whose credential it has."""
    queues: tuple[str, ...] = ()
    """The queues that it serves."""
    kinds: tuple[StepKind, ...] = field(default=(), repr=False)
    """The kinds of step that it does."""
    tasks: tuple[TaskPattern, ...] = field(default=(), repr=False)
    """The TASK and RECONCILE steps that it does. Empty: all."""
    version: str = ""
    """The version of its agent."""
    connected_time: datetime.datetime | None = None
    """The time when it connected to its replica; a reconnect counts. None: it is not known."""
    free_slots: int = 0
    """Further steps that it can take now."""
    held_count: int = 0
    """The number of steps that it holds: of the run, where one was asked for."""
    held: tuple[HeldStep, ...] = field(default=(), repr=False)
    """The first 100 of them."""
    draining: bool = False
    """It takes no more steps, and ends when those that it has are done."""
    lapses: int = 0
    """Leases in a row that it let run out. Above 0: it was silent, and has completed nothing since."""
    input_schema: str = field(default="", repr=False)
    """The JSON schema of its runs' input, if it was asked for and is known to the server that answered."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Queue(Record):
    """A queue of the caller's tenant."""

    name: str = ""
    """The queue's name."""
    limit: int | None = None
    """The most steps that may be done at once. None: as many as the workers take."""
    in_use: int = 0
    """Steps that connected workers hold."""
    waiting_runs: int = 0
    """Runs that have a step ready and none at work."""
    waiting_since_time: datetime.datetime | None = None
    """The time since which the first of them waits. None: none waits."""
    workers: int = 0
    """Connected workers that serve it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class QueueList(Record):
    """The queues that have a limit, a worker or a run that waits."""

    queues: tuple[Queue, ...] = ()
    """The queues, by name."""
    complete: bool = True
    """False: more runs wait, or more steps are at work, than were looked at; the numbers are the least that there are."""
