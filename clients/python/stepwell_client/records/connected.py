"""Records of connected workers, the steps that they hold, and the queues that they serve."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from stepwell_client.enums import StepKind
from stepwell_client.records.parts import Record
from stepwell_client.records.payloads import Payload


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskPattern(Record):
    """Steps that a worker does, by type and role; `*` is any, and an empty type or role means steps without."""

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
    """The last progress that a heartbeat brought. None: there was none, or the request asked about several runs."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConnectedWorker(Record):
    """A connected worker, and the steps that it holds."""

    worker_id: str = ""
    """The worker's id, which it keeps after a restart."""
    instance_id: str = field(default="", repr=False)
    """The worker's instance, which changes with each start."""
    replica_id: str = field(default="", repr=False)
    """The replica that it is connected to."""
    subject: str = ""
    """The subject of its credential."""
    queues: tuple[str, ...] = ()
    """The queues that it serves."""
    kinds: tuple[StepKind, ...] = field(default=(), repr=False)
    """The kinds of step that it does."""
    tasks: tuple[TaskPattern, ...] = field(default=(), repr=False)
    """The TASK and RECONCILE steps that it does. Empty: all."""
    version: str = ""
    """The version of its agent."""
    connected_time: datetime.datetime | None = None
    """The time when it last connected to its replica. None: unknown."""
    free_slots: int = 0
    """The number of further steps that it can take now."""
    held_count: int = 0
    """The number of steps that it holds: of the run, if one was asked for."""
    held: tuple[HeldStep, ...] = field(default=(), repr=False)
    """The first 100 steps that it holds."""
    draining: bool = False
    """True if it takes no more steps, and ends when its running steps are done."""
    lapses: int = 0
    """The number of leases in a row that it let expire. Above 0 it was silent, and has completed nothing since."""
    input_schema: str = field(default="", repr=False)
    """The JSON schema of its runs' input, if requested and known to the answering server."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Queue(Record):
    """A queue of the caller's tenant."""

    name: str = ""
    """The queue's name."""
    limit: int | None = None
    """The most steps that may run at once. None: as many as the workers take."""
    in_use: int = 0
    """Steps that connected workers hold."""
    waiting_runs: int = 0
    """The number of runs with a ready step and no running one."""
    waiting_since_time: datetime.datetime | None = None
    """The time since when the first of these runs waits. None: no run waits."""
    workers: int = 0
    """Connected workers that serve it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class QueueList(Record):
    """The queues that have a limit, a worker or a waiting run."""

    queues: tuple[Queue, ...] = ()
    """The queues, by name."""
    complete: bool = True
    """False: more runs wait, or more steps run, than were counted, so the numbers are lower bounds."""
