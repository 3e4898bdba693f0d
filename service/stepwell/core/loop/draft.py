"""A draft of a transition: an overlay over a `RunState` that `advance` writes to.

Rows change only through `change_run`, `change_task`, `change_execution` and `put_question`; each
changes both the row and the delta of the current event, so no event can miss a change (S20).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Unpack, cast

from msgspec.structs import replace

from stepwell.core.loop import checkpoints, no_progress
from stepwell.core.loop.changes import (
    EventDraft,
    EventFields,
    ExecutionFields,
    RunFields,
    TaskFields,
)
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import Called
from stepwell.core.loop.runnable import Runnable
from stepwell.core.loop.state import RunState, shares_after, withdraws
from stepwell.core.loop.table import EXECUTION_MOVES, RUN_MOVES, TASK_MOVES, IllegalMove
from stepwell.core.loop.transition import EndedCall, Reply, Revoked, Transition
from stepwell.core.port import Commit, EntryWrite, Fence, JournalQuery, Lease, OpenExecution, Timer
from stepwell.core.records.fold import Rows
from stepwell.core.records.journal import StoredEntry
from stepwell.core.records.model import (
    Execution,
    Message,
    Outcome,
    Payload,
    Plan,
    Question,
    RequestRecord,
    RunSpec,
    Task,
    TaskSpec,
)
from stepwell.core.records.states import (
    OPEN,
    SETTLED,
    EventType,
    ExecutionStatus,
    QuestionKind,
    QuestionStatus,
    StepKind,
    TaskStatus,
)

_COUNTED = {
    TaskStatus.COMPLETED: "completed",
    TaskStatus.FAILED: "failed",
    TaskStatus.SKIPPED: "skipped",
    TaskStatus.CANCELLED: "cancelled",
}
"""Statuses of tasks, and the field of `Run.counts` that counts them."""

_ATTEMPTS_COUNTED = {
    ExecutionStatus.COMPLETED: "completed",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.TIMED_OUT: "timed_out",
    ExecutionStatus.LOST: "lost",
    ExecutionStatus.RELEASED: "released",
    ExecutionStatus.CANCELLED: "cancelled",
    ExecutionStatus.NEEDS_ANSWER: "needs_answer",
    ExecutionStatus.SUSPENDED: "suspended",
}
"""Final statuses of executions, and the field of `Run.attempts` that counts them."""

_OF_A_DEFINITION = (
    *("revision", "result_id", "result_run_id", "deduplicated_from", "failure", "question_id"),
    *("previous", "losses", "messages", "started_us", "ended_us", "held_key", "key_run_id"),
)
"""Fields of a task that are reset when a plan redefines it. Attempt numbers never are."""


class Draft:
    """The run after the transition: changes on top of a state that stays unchanged."""

    def __init__(self, state: RunState, context: Context) -> None:
        self.state = state
        self.context = context
        self.version = state.run.version + 1
        self.run = state.run
        self.graph = state.graph
        self.plan: Plan | None = None
        self.input: Payload | None = None
        self.changes_spec = False
        self.request: RequestRecord | None = None
        self.called = False
        """True if a command was applied."""
        self._caller: Called | None = None
        self.outcomes: dict[str, Outcome] = {}
        self.leases: list[Lease] = []
        self.fences: dict[str, Fence] = {}
        self.timers: dict[str, Timer] = {}
        self.messages: list[Message] = []
        self.entries: tuple[EntryWrite, ...] = ()
        self.forgotten: tuple[EntryWrite, ...] = ()
        self.suspended = state.suspended
        """Tasks that are suspended. Copied before it is changed."""
        self.asked_keys: dict[str, bool] = {}
        self.asked_pages: dict[JournalQuery, None] = {}
        self.wanted_signals: dict[str, int] = {}
        """The number of calls that looked for a kept signal, by its name."""
        self.revoked: list[Revoked] = []
        self.ended_calls: list[EndedCall] = []
        self.tasks: dict[str, Task] = {}
        self.executions: dict[str, Execution] = {}
        self._offered: list[str] = []
        """Executions that were created READY, in order."""
        self.changed_questions: dict[str, Question] = {}
        self._calls: dict[tuple[str, str], str] = {}
        self.shares = state.shares
        self._events: list[EventDraft] = []
        self._runnable = self.groups = Runnable(state, self.tasks)

    # --- events and the rows that they change
    # ----------------------------------------------------------

    @property
    def changed(self) -> bool:
        """True once there is an event to commit."""
        return bool(self._events)

    def event(self, kind: EventType, **fields: Unpack[EventFields]) -> None:
        """Begin an event; the changes that follow are its delta."""
        if self._caller is not None:
            fields["actor"] = self._caller.actor
            fields["on_behalf_of"] = self._caller.on_behalf_of
        self._events.append(EventDraft(kind, fields))

    @contextmanager
    def called_by(self, caller: Called) -> Generator[None]:
        """Name the caller of a command in its events and in the run."""
        self.called = True
        before, self._caller = len(self._events), caller
        yield
        self._caller = None
        by: RunFields = {"actor": caller.actor, "on_behalf_of": caller.on_behalf_of}
        if len(self._events) > before and by != {name: getattr(self.run, name) for name in by}:
            self.change_run(**by)

    def change_run(self, **fields: Unpack[RunFields]) -> None:
        """Change fields of the run's row."""
        status = fields.get("status")
        if status is not None and status not in RUN_MOVES[self.run.status]:
            raise IllegalMove(f"run {self.run.status} -> {status}")
        self.run = replace(self.run, **fields)
        self._events[-1].run.update(fields)

    def change_spec(self, spec: RunSpec) -> None:
        """Change the labels of the run's specification, or its place in its tree."""
        self.run = replace(self.run, spec=spec)
        self.changes_spec = True

    def change_task(self, task_id: str, **fields: Unpack[TaskFields]) -> None:
        """Change fields of a task's row; the run's counts and the task's dependents follow.

        A task that changes its status no longer waits for its key, and releases it if it ends
        without a result. A task whose dependency runs again also releases its key, because the
        dependency may wait for it.
        """
        before = self.task(task_id)
        status = fields.get("status", before.status)
        if before.key_run_id and status is not TaskStatus.PENDING:
            fields["key_run_id"] = ""
        if before.held_key and status in SETTLED and status is not TaskStatus.COMPLETED:
            fields["held_key"] = ""
        after = replace(before, **fields)
        self.tasks[task_id] = after
        self._events[-1].tasks.setdefault(task_id, {}).update(fields)
        if after.status is before.status:
            return
        if after.status not in TASK_MOVES[before.status]:
            raise IllegalMove(f"task {task_id} {before.status} -> {after.status}")
        was_settled, is_settled = before.status in SETTLED, after.status in SETTLED
        if was_settled or is_settled:
            self._count(before.status, after.status)
        if was_settled and not is_settled:
            for one in self.graph.dependents.get(task_id, ()):
                if self.task(one).held_key:
                    self.change_task(one, held_key="")
        if is_settled and not was_settled and no_progress.is_watched(self.run):
            result = self._result_of(after.result_id)
            self.change_run(tally=no_progress.settled(self.run.tally, after, result))
        self._runnable.task_moved(task_id, before.status, after.status)

    def add_execution(
        self, execution_id: str, kind: StepKind, **fields: Unpack[ExecutionFields]
    ) -> Execution:
        """Create an execution; the event has its non-empty fields."""
        given = cast("ExecutionFields", {name: value for name, value in fields.items() if value})
        execution = Execution(execution_id=execution_id, kind=kind, **given)
        self.executions[execution_id] = execution
        self._events[-1].executions[execution_id] = {"kind": kind, **given}
        if execution.status is ExecutionStatus.READY:
            self._offered.append(execution_id)
        elif execution.status in _ATTEMPTS_COUNTED:
            self._count_attempt(execution.status)
        return execution

    def change_execution(self, execution: Execution, **fields: Unpack[ExecutionFields]) -> None:
        """Change fields of an execution's row."""
        status = fields.get("status")
        if status is not None and status not in EXECUTION_MOVES[execution.status]:
            raise IllegalMove(f"{execution.execution_id} {execution.status} -> {status}")
        execution_id = execution.execution_id
        self.executions[execution_id] = replace(execution, **fields)
        changes = self._events[-1].executions
        changes[execution_id] = {**changes.get(execution_id, {}), **fields}
        if status is not None and status in _ATTEMPTS_COUNTED:
            self._count_attempt(status)

    def put_question(self, question: Question) -> None:
        """Write a question."""
        question_id, questions = question.question_id, self.state.questions
        before = self.changed_questions.get(question_id) or questions.get(question_id)
        self.shares = shares_after(self.shares, before, question)
        if question.status is QuestionStatus.OPEN:
            # The call of one that ends may have another one by now.
            self._calls[question.task_id, question.call] = question_id
        self.changed_questions[question_id] = question
        self._events[-1].questions[question.question_id] = question

    def put_outcome(self, outcome: Outcome) -> None:
        """Keep the results of an execution."""
        self.outcomes[outcome.execution_id] = outcome

    def put_receipt(self, execution_id: str, receipt: str) -> None:
        """Keep the receipt of the delivery that ended an execution, with its outcome if it left one."""
        outcome = self.outcomes.get(execution_id) or Outcome(execution_id=execution_id)
        self.outcomes[execution_id] = replace(outcome, receipt=receipt)

    def adopt_task(self, task_id: str, **fields: Unpack[TaskFields]) -> None:
        """Take over a task of a fork's plan with its state in the parent.

        This is no move of the loop, because nothing happened to the task here.
        """
        before = self.task(task_id)
        after = self.tasks[task_id] = replace(before, **fields)
        self._events[-1].tasks.setdefault(task_id, {}).update(fields)
        if after.status in SETTLED:
            self._count(before.status, after.status)
            self._runnable.task_moved(task_id, before.status, after.status)

    def put_plan(self, plan: Plan) -> None:
        """Put a plan in force; the current event is its PLAN_ACCEPTED.

        New tasks, changed tasks, and tasks that an earlier plan had dropped start from the
        beginning. Equal tasks carry over. Unsettled tasks that the plan doesn't name are CANCELLED.
        The caller has closed the open executions of tasks that don't carry over
        (`plans.close_dropped`).
        """
        self.plan = plan
        self.graph = self.graph.with_plan(plan.tasks)
        before = {**self.state.tasks, **self.tasks}
        fresh = {
            spec.task_id: Task(task_id=spec.task_id, revision=plan.revision)
            for spec in plan.tasks
            if spec.task_id not in before
        }
        self.tasks.update(fresh)
        total = self.run.counts.total + len(fresh)
        self.change_run(counts=replace(self.run.counts, total=total), plan_revision=plan.revision)
        settled = {task_id for task_id, task in before.items() if task.status in SETTLED}
        self._runnable.plan_changed(self.graph, settled)
        named = {spec.task_id for spec in plan.tasks} if before else frozenset[str]()
        carried = frozenset(plan.carried)
        for task_id in before:
            task = self.task(task_id)
            if task_id not in named and task.status not in SETTLED:
                self.change_task(task_id, status=TaskStatus.CANCELLED, ended_us=self.context.now_us)
            elif task_id in named and task_id not in carried:
                self._define_anew(task, plan.revision)
        self._runnable.begin_anew(spec.task_id for spec in plan.tasks)

    def _define_anew(self, task: Task, revision: int) -> None:
        anew = Task(task_id=task.task_id, revision=revision)
        fields = cast("TaskFields", {name: getattr(anew, name) for name in _OF_A_DEFINITION})
        fields |= {"status": TaskStatus.PENDING, "spent": 0, "allowance": 0}
        if task.journal != anew.journal:
            fields["journal"] = anew.journal
        self.change_task(task.task_id, **fields)

    # --- reading ------------------------------------------------------------------------------------

    def task(self, task_id: str) -> Task:
        """Return a task's row."""
        row = self.tasks.get(task_id)
        return row if row is not None else self.state.tasks[task_id]

    def spec(self, task_id: str) -> TaskSpec:
        """Return a task's definition by the plan in force."""
        return self.graph.specs[task_id]

    def held(self, execution_id: str) -> OpenExecution | None:
        """Return an open execution with its lease, or None if it is not open."""
        row = self.state.open.get(execution_id)
        changed = self.executions.get(execution_id)
        if changed is not None:
            if changed.status not in OPEN:
                return None
            lease = next((one for one in self.leases if one.execution_id == execution_id), None)
            return self.state.with_lease(changed, lease)
        return row

    def open_executions(self) -> Iterator[Execution]:
        """Return the open executions, oldest first."""
        for execution_id, row in self.state.open.items():
            if execution_id not in self.executions:
                yield row.execution
        for execution in tuple(self.executions.values()):
            if execution.status in OPEN:
                yield execution

    def _result_of(self, execution_id: str) -> Payload | None:
        outcome = self.outcomes.get(execution_id)
        return outcome.result if outcome is not None else None

    def is_planned(self, task_id: str) -> bool:
        """Return whether the plan in force names this task."""
        if self.plan is not None:
            return any(spec.task_id == task_id for spec in self.plan.tasks)
        return task_id in self.state.plan_tasks

    @property
    def plan_fingerprint(self) -> str:
        """Fingerprint of the plan in force."""
        return self.plan.fingerprint if self.plan is not None else self.state.plan_fingerprint

    def is_new(self, execution: Execution) -> bool:
        """Return whether this transition created the execution."""
        return execution.execution_id not in self.state.open

    def open_questions(
        self, *, children: bool = True, task_id: str | None = None, withdrawn: bool = False
    ) -> Iterator[Question]:
        """Return the questions that wait for an answer, or those of one step; without `children`, not those that wait for child runs.

        With `withdrawn`, also those of child runs that a later commit ends, because their step has ended.
        """
        known = self.state.questions if children else self.state.but_children
        if task_id is not None:
            known = self.state.of_step.get(task_id, {})
        hidden = None if withdrawn or not children else withdraws(self.run.letters.unwritten)
        for question_id, one in known.items():
            if question_id not in self.changed_questions and not (hidden and hidden(one)):
                yield one
        for one in tuple(self.changed_questions.values()):
            if one.status is QuestionStatus.OPEN and (
                (children or one.kind is not QuestionKind.CHILD)
                and task_id in (None, one.task_id)
                and not (hidden and hidden(one))
            ):
                yield one

    def count_open(self, task_id: str) -> int:
        """Return the number of a step's questions that wait for an answer."""
        known = self.state.of_step.get(task_id, {})
        return len(known) + sum(
            (one.status is QuestionStatus.OPEN) - (one.question_id in known)
            for one in self.changed_questions.values()
            if one.task_id == task_id
        )

    def open_call(self, task_id: str, call: str) -> Question | None:
        """Return the question of a step's call that waits for an answer, or None if there is none."""
        of_call = task_id, call
        question_id = self._calls.get(of_call) or self.state.calls.get(of_call)
        return self.open_question(question_id) if question_id else None

    def open_question(self, question_id: str) -> Question | None:
        """Return a question that waits for an answer, or None if it doesn't."""
        one = self.changed_questions.get(question_id) or self.state.questions.get(question_id)
        if one is None or one.status is not QuestionStatus.OPEN:
            return None
        hidden = withdraws(self.run.letters.unwritten)
        return None if hidden and hidden(one) else one

    def read(self, query: JournalQuery) -> Sequence[StoredEntry] | None:
        """Return the first entries of the run's journals for a query, up to its limit.

        Entries that aren't read yet are asked for, and None is returned.
        """
        found = self.context.pages.get(query)
        if found is None:
            self.asked_pages[query] = None
        return found

    def waiting(self, task_id: str) -> int:
        """Return how many of a task's dependencies aren't settled."""
        return self._runnable.waiting(task_id)

    def pop_runnable(self) -> str | None:
        """Return the next PENDING task that waits for nothing, each task once; None if none is left."""
        return self._runnable.pop()

    # --- counting ------------------------------------------------------------------------------------

    def _count(self, before: TaskStatus, after: TaskStatus) -> None:
        counts = self.run.counts
        if name := _COUNTED.get(before):
            counts = replace(counts, **{name: getattr(counts, name) - 1})
        if name := _COUNTED.get(after):
            counts = replace(counts, **{name: getattr(counts, name) + 1})
        self.change_run(counts=counts)

    def _count_attempt(self, status: ExecutionStatus) -> None:
        name, counts = _ATTEMPTS_COUNTED[status], self.run.attempts
        self.change_run(attempts=replace(counts, **{name: getattr(counts, name) + 1}))

    def _rows(self) -> Rows:
        """Return the rows that can still change."""
        return Rows(
            self.run,
            {**self.state.tasks, **self.tasks},
            {one.execution_id: one for one in self.open_executions()},
            {one.question_id: one for one in self.open_questions(withdrawn=True)},
        )

    # --- the end -------------------------------------------------------------------------------------

    def offered(self) -> list[Execution]:
        """Return the executions that became READY and may be leased at once, in order."""
        made = [self.executions[one] for one in self._offered]
        return [one for one in made if one.status is ExecutionStatus.READY and one.delay_ms == 0]

    def _granted(self) -> tuple[Lease, ...]:
        """Return the leases, except those that were granted and ended in this same transition."""
        leased = ExecutionStatus.LEASED
        rows = self.executions
        return tuple([one for one in self.leases if rows[one.execution_id].status is leased])

    def finish(self, replies: tuple[Reply, ...]) -> Transition:
        """Return the transition."""
        if not self._events:
            return Transition(
                run=self.state.run,
                replies=replies,
                asked_keys=self.asked_keys,
                asked_pages=tuple(self.asked_pages),
            )
        # A wait that ends with a lease in the same commit is told by EXECUTION_LEASED alone.
        blocked = EventType.RUN_BLOCKED
        events = [one for one in self._events if one.kind is not blocked or not one.is_empty]
        events = events or self._events
        first = self.state.run.last_event + 1
        last = self.state.run.last_event + len(events)
        self.run = replace(self.run, version=self.version, last_event=last)
        now_us = self.context.now_us
        numbered = tuple(
            [
                event.finish(number, self.version, now_us)
                for number, event in enumerate(events, first)
            ]
        )
        return Transition(
            run=self.run,
            commit=Commit(
                commit_id=self.context.commit_id,
                tenant_id=self.run.spec.tenant_id,
                run_id=self.run.spec.run_id,
                version=self.version,
                follows=self.state.commit_id,
                run=self.run,
                changes_spec=self.changes_spec,
                input=self.input,
                plan=self.plan,
                tasks=tuple(self.tasks.values()),
                executions=tuple(self.executions.values()),
                outcomes=tuple(self.outcomes.values()),
                leases=self._granted(),
                fences=tuple(self.fences.values()),
                timers=tuple(self.timers.values()),
                questions=tuple(self.changed_questions.values()),
                events=numbered,
                messages=tuple(self.messages),
                request=self.request,
                entries=self.entries,
                forgotten=self.forgotten,
                checkpoint=checkpoints.made(self.run, numbered, self.state.checkpoint, self._rows),
            ),
            replies=replies,
            asked_keys=self.asked_keys,
            asked_pages=tuple(self.asked_pages),
            offered=tuple([one.execution_id for one in self.offered()]),
            revoked=tuple(self.revoked),
            ended_calls=tuple(self.ended_calls),
        )
