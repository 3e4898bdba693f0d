"""Arguments and answers of the tools: small, bounded, and described for a model."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, Field

from stepwell.cli import describe, results
from stepwell.cli.text import lines, micros, moment, one_line
from stepwell_client import (
    Event,
    ForkCheck,
    Question,
    Run,
    RunTask,
    Task,
)

EVENTS_MAX = 50
TASKS_MAX = 50
QUESTIONS_MAX = 20
RUNS_MAX = 50
TEXT_CHARS = 300
"""The longest text of a row; longer ones are cut."""
PROMPT_CHARS = 4_000
ANSWER_CHARS = 20_000
"""The longest result or input that is shown; longer ones are cut, and say so."""
IDS_MAX = 100


class TaskDraft(BaseModel):
    """A task of a plan."""

    id: Annotated[str, Field(description="Its name, unique within the plan.")]
    type: Annotated[
        str, Field(description="The kind of task, by which a worker finds its function.")
    ] = ""
    input: Annotated[Any, Field(description="What it works on: any JSON value.")] = None
    depends_on: Annotated[
        list[str], Field(description="Ids of tasks that must be completed before it.")
    ] = []
    title: str = ""

    def task(self) -> Task:
        """Return it as the client's."""
        return Task(
            self.id,
            self.type,
            input=self.input,
            depends_on=tuple(self.depends_on),
            title=self.title,
        )


class RunSummary(BaseModel):
    """The state of a run."""

    run_id: str
    status: Annotated[
        str,
        Field(description="QUEUED, RUNNING, WAITING, PAUSED, SUCCEEDED, FAILED or CANCELLED."),
    ]
    phase: str
    iteration: int
    tasks: Annotated[str, Field(description="How many tasks are done, of how many.")]
    waits_for: Annotated[str, Field(description="What it waits for; empty: nothing.")]
    goal: str
    pipeline: str
    queue: str
    labels: dict[str, str]
    reason: str
    failure: Annotated[str, Field(description="Why it failed; empty: it didn't.")]
    parent: Annotated[str, Field(description="The run and version that it was forked from.")]
    version: Annotated[int, Field(description="Its last version: `fork_run` takes any up to it.")]
    last_event: int
    created: str
    ended: str
    input_tokens: int
    output_tokens: int
    cost_micros: Annotated[int, Field(description="Millionths of the currency unit.")]


class EventRow(BaseModel):
    """Something that happened in a run."""

    number: int
    type: str
    task_id: str
    message: str


class QuestionShape(BaseModel):
    """A question that a run asks a person."""

    question_id: str
    task_id: str
    kind: Annotated[str, Field(description="APPROVAL: true or false; CHOICE: one of the choices.")]
    prompt: str
    choices: list[str]
    answer_schema: Annotated[str, Field(description="JSON schema of the answer; empty: none.")]


class TaskRow(BaseModel):
    """The state of a task."""

    task_id: str
    type: str
    title: str
    status: str
    attempts: int
    failure: str


class Started(BaseModel):
    """A run that was started."""

    run: RunSummary
    created: Annotated[bool, Field(description="False: this request had started it before.")]


class Forked(BaseModel):
    """Outcome of a fork: the fork, or what it would keep and run again."""

    fork: RunSummary | None
    kept: list[str]
    rerun: list[str]
    pending: list[str]
    problems: Annotated[list[str], Field(description="Why it can't be forked so; empty: it can.")]
    warnings: list[str]


class Watched(BaseModel):
    """The events since one, and the state of the run."""

    run: RunSummary
    events: list[EventRow]
    after: Annotated[int, Field(description="Pass it as `after` to watch on from here.")]
    more: Annotated[bool, Field(description="True: later events are there already.")]
    questions: list[QuestionShape]


class Listed(BaseModel):
    """Runs, newest first."""

    runs: list[RunSummary]
    more: bool


class Shown(BaseModel):
    """A run with its tasks, its open questions and its result."""

    run: RunSummary
    tasks: list[TaskRow]
    more_tasks: bool
    questions: list[QuestionShape]
    result: Annotated[
        str | None,
        Field(description="JSON, or the text itself; null: there is none (yet)."),
    ]
    task_input: Annotated[str | None, Field(description="Of the task that was asked for.")] = None


def cut(text: str, chars: int) -> str:
    """Return text without control characters, and cut where it is too long, which it then says."""
    clean = lines(text)
    if len(clean) <= chars:
        return clean
    return f"{clean[:chars]}… [cut: {chars:,} of {len(clean):,} characters]"


def result_text(result: results.RunResult) -> str:
    """Return a result, or several by their tasks' ids, as text: a string as it is, anything else as JSON."""
    value = results.plain(result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(text, ANSWER_CHARS)


def summary(run: Run) -> RunSummary:
    """Return how a run stands."""
    usage = run.usage
    return RunSummary(
        run_id=run.id,
        status=describe.status(run),
        phase=run.phase.name,
        iteration=run.iteration,
        tasks=describe.tasks(run),
        waits_for=describe.blocked(run, exact=True),
        goal=one_line(run.goal, TEXT_CHARS),
        pipeline=run.pipeline,
        queue=run.queue,
        labels={key: one_line(run.labels[key]) for key in sorted(run.labels)},
        reason=one_line(run.reason, TEXT_CHARS),
        failure=one_line(describe.failure(run.failure), TEXT_CHARS),
        parent=run.parent_run_id and f"{run.parent_run_id} at version {run.parent_version}",
        version=run.version,
        last_event=run.last_event,
        created=moment(micros(run.created_time)),
        ended=moment(micros(run.ended_time)) if run.ended_time else "",
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_micros=usage.cost_micros,
    )


def event_row(event: Event) -> EventRow:
    """Return an event in short."""
    return EventRow(
        number=event.number,
        type=event.type.name,
        task_id=event.task_id,
        message=one_line(event.message, TEXT_CHARS),
    )


def question(question: Question) -> QuestionShape:
    """Return a question with all that its answer needs."""
    return QuestionShape(
        question_id=question.id,
        task_id=question.task_id,
        kind=question.kind.name,
        prompt=cut(question.prompt, PROMPT_CHARS),
        choices=[cut(one, TEXT_CHARS) for one in question.choices],
        answer_schema=cut(question.schema, PROMPT_CHARS),
    )


def task_row(entry: RunTask) -> TaskRow:
    """Return how a task stands."""
    return TaskRow(
        task_id=entry.id,
        type=entry.definition.type,
        title=one_line(entry.definition.title, TEXT_CHARS),
        status=entry.status.name,
        attempts=entry.attempts,
        failure=one_line(describe.failure(entry.failure), TEXT_CHARS),
    )


def forked(response: ForkCheck) -> Forked:
    """Return what a fork would keep and run again, or why it doesn't fit."""
    return Forked(
        fork=None,
        kept=list(response.kept_task_ids[:IDS_MAX]),
        rerun=list(response.rerun_task_ids[:IDS_MAX]),
        pending=list(response.pending_task_ids[:IDS_MAX]),
        problems=[
            one_line(": ".join(part for part in (one.task_id, one.description) if part), TEXT_CHARS)
            for one in response.violations[:IDS_MAX]
        ],
        warnings=[one_line(one, TEXT_CHARS) for one in response.warnings],
    )
