"""The rows of one run, and the pages and deltas that are read from them.

Rows that change lie in dictionaries, the last changed one at the end, so that a delta is read from
the end and costs what it returns. Payload bytes are kept separately: reading rows doesn't touch
them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping
from typing import Protocol, TypeVar

from msgspec.structs import replace

from stepwell.core.port import EventPage, Loaded, OpenExecution
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.events import Event
from stepwell.core.records.journal import Totals
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import (
    Execution,
    Message,
    Outcome,
    Payload,
    Plan,
    Question,
    RequestRecord,
    Run,
    Session,
    Task,
)
from stepwell.core.records.states import ExecutionStatus, QuestionStatus
from stepwell_drivers.memory.agenda import Deadline, Ready
from stepwell_drivers.memory.journals import RunJournals
from stepwell_drivers.memory.logs import RunLog


class Versioned(Protocol):
    """A row with the version that changed it last."""

    changed: int


V = TypeVar("V", bound=Versioned)
T = TypeVar("T")


class TaskRow:
    """The current state of a task."""

    __slots__ = ("changed", "task")

    def __init__(self, task: Task, changed: int) -> None:
        self.task = task
        self.changed = changed


class QuestionRow:
    """The current state of a question."""

    __slots__ = ("birth", "changed", "question")

    def __init__(self, question: Question, birth: int, changed: int) -> None:
        self.question = question
        self.birth = birth
        self.changed = changed


class Lease:
    """The holder of an execution, with its last heartbeat's data and the sums of what it recorded."""

    __slots__ = (
        "deadline",
        "instance_id",
        "progress",
        "recorded",
        "session",
        "token",
        "worker_id",
    )

    def __init__(self, token: str, worker_id: str, instance_id: str, deadline: Deadline) -> None:
        self.token = token
        self.worker_id = worker_id
        self.instance_id = instance_id
        self.deadline = deadline
        self.progress: Payload | None = None
        self.session = Session()
        self.recorded = Totals()


class ExecutionRow:
    """The current state of an execution, with its lease or its place in the queue."""

    __slots__ = ("birth", "changed", "execution", "lease", "ready")

    def __init__(self, execution: Execution, birth: int) -> None:
        self.execution = execution
        self.birth = birth
        self.changed = 0
        self.lease: Lease | None = None
        self.ready: Ready | None = None

    def has_recorded_since(self, version: int) -> bool:
        """Return whether it is unchanged since a version, but its lease has recorded something."""
        return (
            self.changed <= version and self.lease is not None and self.lease.recorded.entries > 0
        )

    def as_open(self) -> OpenExecution:
        """Return the execution with its lease, if it has one."""
        lease = self.lease
        if lease is None:
            return OpenExecution(execution=self.execution)
        return OpenExecution(
            execution=self.execution,
            token=lease.token,
            worker_id=lease.worker_id,
            instance_id=lease.instance_id,
            progress=lease.progress,
            session=lease.session,
            recorded=lease.recorded,
        )


class RunRows:
    """All stored rows of one run."""

    def __init__(self, tenant_id: str, run_id: str, birth: int, run: Run) -> None:
        self.tenant_id = tenant_id
        self.run_id = run_id
        self.birth = birth
        self.run = run
        self.version = 0
        self.commit_ids: list[str] = []
        """The id of the commit that made each version, from version 1."""
        self.feed_places: list[int] = []
        """The place of each version in the feed."""
        self.input: Payload | None = None
        self.plans: dict[int, tuple[int, Plan]] = {}
        self.tasks: dict[str, TaskRow] = {}
        self.executions: dict[str, ExecutionRow] = {}
        self.open: dict[str, ExecutionRow] = {}
        self.births: list[str] = []
        self.births_of_task: dict[str, list[str]] = {}
        self.questions: dict[str, QuestionRow] = {}
        self.asked: list[str] = []
        """The ids of the questions in the order of creation."""
        self.requests: deque[tuple[int, RequestRecord]] = deque(maxlen=REQUESTS_KEPT_MAX)
        self.checkpoints: list[Checkpoint] = []
        self.bases: list[Checkpoint] = []
        """The checkpoints that have a base, with the base. `checkpoints` has all of them, without bases."""
        self.timers: dict[str, Deadline] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.events: list[Event] = []
        self.event_ends: list[int] = []
        """The number of the last event of each commit with events."""
        self.messages: list[Message] = []
        self.messages_of_task: dict[str, list[Message]] = {}
        self.log = RunLog()
        self.journals = RunJournals()
        self._places: dict[int, Mapping[str, int]] = {}
        self._order: list[str] | None = None

    def is_leased(self, execution_id: str) -> bool:
        """Return whether a worker holds this execution, which must exist."""
        return self.executions[execution_id].execution.status is ExecutionStatus.LEASED

    def put_plan(self, plan: Plan) -> None:
        """Keep a plan revision, and each task's position in it."""
        self.plans[plan.revision] = (self.version, plan)
        self._places[plan.revision] = {spec.task_id: at for at, spec in enumerate(plan.tasks)}
        self._order = None

    def put_task(self, task: Task) -> None:
        """Keep a task, and move it to the end as the last changed."""
        old = self.tasks.pop(task.task_id, None)
        if old is None or old.task.revision != task.revision:
            self._order = None
        self.tasks[task.task_id] = TaskRow(task, self.version)

    def put_question(self, question: Question, birth: int) -> QuestionRow:
        """Keep a question, created now if it is new, and move it to the end as the last changed."""
        old = self.questions.pop(question.question_id, None)
        if old is None:
            self.asked.append(question.question_id)
        row = QuestionRow(question, birth if old is None else old.birth, self.version)
        self.questions[question.question_id] = row
        return row

    def put_events(self, events: tuple[Event, ...]) -> None:
        """Append a commit's events."""
        if events:
            self.events.extend(events)
            self.event_ends.append(events[-1].number)

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, and its base separately."""
        if checkpoint.base:
            self.bases.append(checkpoint)
            checkpoint = replace(checkpoint, base=b"")
        self.checkpoints.append(checkpoint)

    def base_up_to(self, version: int) -> Checkpoint | None:
        """Return the last checkpoint with a base, up to a version."""
        at = bisect_right(self.bases, version, key=lambda one: one.version)
        return self.bases[at - 1] if at else None

    def put_message(self, message: Message) -> None:
        """Append to the conversation."""
        self.messages.append(message)
        self.messages_of_task.setdefault(message.task_id, []).append(message)

    def ordered_tasks(self) -> list[str]:
        """Return the ids of all tasks, ordered by revision and then by place in the plan."""
        if self._order is None:
            self._order = sorted(self.tasks, key=self._task_place)
        return self._order

    def _task_place(self, task_id: str) -> tuple[int, int, str]:
        revision = self.tasks[task_id].task.revision
        places = self._places.get(revision, {})
        return (revision, places.get(task_id, len(places)), task_id)

    def load(self, since: int, now_us: int) -> Loaded:
        """Return everything that the loop needs, or only what changed after `since`."""
        complete = not 0 < since <= self.version
        if complete:
            tasks = [self.tasks[task_id] for task_id in self.ordered_tasks()]
            executions = list(self.open.values())
            questions = [row for row in self.questions.values() if _is_open(row.question)]
            since = 0
        else:
            tasks = _changed(self.tasks, since)
            executions = _changed(self.executions, since)
            executions += [row for row in self.open.values() if row.has_recorded_since(since)]
            questions = _changed(self.questions, since)
        return Loaded(
            run=self.run,
            plans=tuple(plan for created, plan in self.plans.values() if created > since),
            tasks=tuple(row.task for row in tasks),
            executions=tuple(row.as_open() for row in executions),
            questions=tuple(row.question for row in questions),
            checkpoint=self.checkpoints[-1] if self.checkpoints else None,
            requests=tuple(request for created, request in self.requests if created > since),
            complete=complete,
            commit_id=self.commit_ids[-1],
            since_id="" if complete else self.commit_ids[since - 1],
            now_us=now_us,
        )

    def read_events(self, after: int, limit: int) -> EventPage:
        """Return the events of whole commits. Event numbers have no gaps, so a number is an index."""
        latest = len(self.events)
        start = min(max(after, 0), latest)
        end = start
        if start < latest:
            first = bisect_right(self.event_ends, start)
            beyond = bisect_right(self.event_ends, start + limit)
            end = self.event_ends[max(beyond - 1, first)]
        return EventPage(
            events=tuple(self.events[start:end]),
            latest=latest,
            ended=self.run.ended and end == latest,
        )


def _is_open(question: Question) -> bool:
    return question.status is QuestionStatus.OPEN


def _changed(rows: dict[str, V], since: int) -> list[V]:
    """Return the rows at the end that changed after `since`, the earliest change first."""
    found: list[V] = []
    for row in reversed(rows.values()):
        if row.changed <= since:
            break
        found.append(row)
    found.reverse()
    return found


def page_of(rows: list[T], cursor: int, limit: int) -> tuple[list[T], str]:
    """Return a page that starts at an index, and the next cursor ("" after the last page)."""
    end = cursor + max(limit, 1)
    return rows[cursor:end], str(end) if end < len(rows) else ""


def newest_before(births: list[RunRows], birth: int) -> int:
    """Return how many runs were created before `birth`."""
    return bisect_left(births, birth, key=lambda rows: rows.birth)
