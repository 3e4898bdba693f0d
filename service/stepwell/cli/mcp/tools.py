"""The tools: each makes a few calls with the credentials of whoever called it.

A tool's docstring is what a model reads about it, and so are the descriptions of its arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal, TypeVar

from google.protobuf.message import Message
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from stepwell.cli import arguments
from stepwell.cli.errors import explain, stands_still
from stepwell.cli.exits import CliError
from stepwell.cli.view import describe, results
from stepwell.cli.view.json_output import Bounds, document, json_text
from stepwell_client import (
    Client,
    Event,
    ForkMode,
    Payload,
    Question,
    Result,
    Run,
    RunHandle,
    RunStatus,
    StepwellClientError,
    TaskStatus,
    Unauthenticated,
)
from stepwell_client.enums import QuestionStatus
from stepwell_client.errors import ForkIncompatible
from stepwell_client.internal import ForkOptions, StartOptions
from stepwell_client.records import Record
from stepwell_client.v1 import types_pb2

WATCH_SECONDS_MAX = 60.0
_ON_BEHALF_OF = "mcp"
"""The name that stands beside the caller's own in events."""

Item = TypeVar("Item")
RunId = Annotated[str, Field(description="The run's whole id, as `list_runs` has it.")]
Reason = Annotated[str, Field(description="Why, for people who look at the run.", max_length=1_000)]
Plan = Annotated[
    list[dict[str, Any]] | None,
    Field(
        description="The tasks, in the place of a plan that the agent would make. Each is an object with `id`, unique"
        " within the plan; `type`, by which a worker finds its function; `input`, any JSON value; `depends_on`, ids of"
        " tasks that must be completed before it; `title`; and the other fields of the protocol's TaskSpec."
    ),
]
Status = Literal["QUEUED", "RUNNING", "WAITING", "PAUSED", "SUCCEEDED", "FAILED", "CANCELLED"]
Answer = dict[str, Any]
"""JSON by the field names of the protocol, as the command line's --json prints it: what is empty is left out."""

EVENTS_MAX = 50
TASKS_MAX = 50
QUESTIONS_MAX = 20
RUNS_MAX = 50
_ROW = Bounds(chars=300)
_QUESTION = Bounds(chars=4_000)
_RESULT = Bounds(chars=20_000)


async def first(items: AsyncIterator[Item], most: int) -> tuple[list[Item], bool]:
    """Return the first items, and whether there are more."""
    found: list[Item] = []
    async for item in items:
        if len(found) == most:
            return found, True
        found.append(item)
    return found, False


def message_of(error: StepwellClientError, target: str) -> str:
    """Return an error of the client with what can be done about it."""
    if isinstance(error, Unauthenticated):
        return f"{target} does not know the token of this call: {error.message}"
    if isinstance(error, ForkIncompatible):
        wrong = [f"{one.field}: {one.description}" for one in error.violations[:10]]
        return "\n".join([error.message, *wrong])
    return explain(error, target)


class Tools:
    """The tools, as methods. `connect` makes the client for a call of one."""

    def __init__(self, connect: Callable[[Context[Any, Any]], Client]) -> None:
        self._connect = connect

    @asynccontextmanager
    async def _client(self, context: Context[Any, Any]) -> AsyncGenerator[Client]:
        """Connect for a call; the client's errors become messages for the model."""
        try:
            async with self._connect(context) as client:
                try:
                    yield client
                except StepwellClientError as error:
                    raise ToolError(message_of(error, client.connection.target)) from error
        except StepwellClientError as error:
            raise ToolError(error.message) from error

    async def start_run(
        self,
        context: Context[Any, Any],
        goal: Annotated[str, Field(description="What the run is to reach.")] = "",
        run_input: Annotated[Any, Field(description="What it works on: any JSON value.")] = None,
        pipeline: Annotated[
            str, Field(description="The kind of run; it names the queue of workers, too.")
        ] = "",
        queue: Annotated[str, Field(description="The queue, where it is another one.")] = "",
        plan: Plan = None,
        labels: dict[str, str] | None = None,
        reflect_on: Annotated[
            list[str] | None,
            Field(description="Names of signals, each of which makes the run reflect at once."),
        ] = None,
        request_id: Annotated[
            str,
            Field(description="A name for this request: sent again, it finds the same run again."),
        ] = "",
    ) -> Answer:
        """Start a run of an agent, and return at once. Follow it with `watch_run`."""
        options = StartOptions(
            pipeline=pipeline,
            queue=queue,
            labels=labels or {},
            reflect_on=reflect_on or (),
            request_id=request_id,
            on_behalf_of=_ON_BEHALF_OF,
        )
        if run_input is not None:
            options["input"] = run_input
        if plan is not None:
            options["plan"] = _plan(plan)
        async with self._client(context) as client:
            started = await client.start(goal, **options)
            return _answered(started)

    async def watch_run(
        self,
        context: Context[Any, Any],
        run_id: RunId,
        after: Annotated[
            int, Field(ge=0, description="The last event that is known; 0: from the beginning.")
        ] = 0,
        seconds: Annotated[
            float, Field(ge=1, le=WATCH_SECONDS_MAX, description="The longest to wait.")
        ] = 20.0,
    ) -> Answer:
        """Wait for what happens in a run, and return its events after the one that is known.

        Returns as soon as the run has ended, asks a person, or stands still otherwise; else when the time
        is over. Call it again with the returned `after` to watch on.
        """
        async with self._client(context) as client:
            run = await client.run(run_id).get()
            events, more = await _events(client, run, after, seconds)
            run = await client.run(run_id).get()
            return {
                "run": _run(run),
                "events": [_event(one) for one in events],
                "after": events[-1].number if events else after,
                "more": more,
                "questions": [_shown(one, _QUESTION) for one in await _questions(client, run)],
            }

    async def list_runs(
        self,
        context: Context[Any, Any],
        statuses: Annotated[
            list[Status] | None, Field(description="Only runs of these statuses.")
        ] = None,
        pipeline: Annotated[str, Field(description="Only runs of this kind.")] = "",
        labels: Annotated[
            dict[str, str] | None, Field(description="Only runs with all these labels.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=RUNS_MAX)] = 20,
    ) -> Answer:
        """List runs, newest first."""
        async with self._client(context) as client:
            found = client.runs(
                statuses=[RunStatus[one] for one in statuses or ()],
                pipeline=pipeline,
                labels=labels or {},
                page_size=limit + 1,
            )
            runs, more = await first(found, limit)
            return {"runs": [_run(run) for run in runs], "more": more}

    async def show_run(
        self,
        context: Context[Any, Any],
        run_id: RunId,
        task_id: Annotated[
            str, Field(description="Only this task, with its input and its result.")
        ] = "",
    ) -> Answer:
        """Show a run: how it stands, its tasks, what it asks, and its result once it has one."""
        async with self._client(context) as client:
            run = await client.run(run_id).get()
            if task_id:
                return await _shown_task(client, run, task_id)
            tasks, more = await first(client.run(run_id).tasks(), TASKS_MAX)
            return {
                "run": _run(run),
                "tasks": [_shown(one) for one in tasks],
                "more_tasks": more,
                "questions": [_shown(one, _QUESTION) for one in await _questions(client, run)],
                "result": await _result(client, run),
            }

    async def answer_question(
        self,
        context: Context[Any, Any],
        run_id: RunId,
        answer: Annotated[
            Any,
            Field(
                description="A JSON value as the question wants it: true or false for an APPROVAL, one of"
                " the choices for a CHOICE."
            ),
        ],
        question_id: Annotated[
            str, Field(description="Which question; may be left out where only one is open.")
        ] = "",
        reason: Reason = "",
    ) -> Answer:
        """Answer what a run asks a person. Do so only with an answer that a person has given you."""
        async with self._client(context) as client:
            if not question_id:
                question_id = await _only_question(client, run_id)
            run = client.run(run_id)
            await run.answer(question_id, answer, reason=reason, on_behalf_of=_ON_BEHALF_OF)
            return _answered(run)

    async def send_signal(
        self,
        context: Context[Any, Any],
        run_id: RunId,
        name: Annotated[str, Field(description="The signal's name, for which a step waits.")],
        value: Annotated[Any, Field(description="Any JSON value.")] = None,
        request_id: Annotated[
            str, Field(description="A name for this request: sent again, it sends no second one.")
        ] = "",
        reason: Reason = "",
    ) -> Answer:
        """Send a run a signal, which the next step that waits for its name takes; the run keeps it until then."""
        async with self._client(context) as client:
            run = client.run(run_id)
            await run.signal(
                name, value, request_id=request_id, reason=reason, on_behalf_of=_ON_BEHALF_OF
            )
            return _answered(run)

    async def cancel_run(
        self, context: Context[Any, Any], run_id: RunId, reason: Reason = ""
    ) -> Answer:
        """Cancel a run for good: its workers are told to stop, and it can't be resumed."""
        async with self._client(context) as client:
            run = client.run(run_id)
            await run.cancel(reason=reason, on_behalf_of=_ON_BEHALF_OF)
            return _answered(run)

    async def fork_run(
        self,
        context: Context[Any, Any],
        run_id: RunId,
        version: Annotated[
            int, Field(ge=0, description="As the run stood at this version; 0: as it stands.")
        ] = 0,
        goal: Annotated[str | None, Field(description="Another goal.")] = None,
        run_input: Annotated[Any, Field(description="Another input; null: the run's own.")] = None,
        plan: Plan = None,
        replan: Annotated[
            bool, Field(description="Have the agent make another plan first.")
        ] = False,
        check_only: Annotated[
            bool, Field(description="Start nothing: say what would be kept and run again.")
        ] = False,
        request_id: Annotated[
            str,
            Field(description="A name for this request: sent again, it finds the same fork again."),
        ] = "",
    ) -> Answer:
        """Start another run from a version of this one; its completed tasks are kept.

        With a plan, tasks that are defined otherwise run again, and so does what is built on them.
        """
        options = ForkOptions(version=version, replan=replan, on_behalf_of=_ON_BEHALF_OF)
        if goal is not None:
            options["goal"] = goal
        if run_input is not None:
            options["input"] = run_input
        if plan is not None:
            options["plan"] = _plan(plan)
            options["mode"] = ForkMode.PATCH
        async with self._client(context) as client:
            if check_only:
                return _shown(await client.run(run_id).check_fork(**options))
            options["request_id"] = request_id
            return _answered(await client.run(run_id).fork(**options))


def _plan(tasks: list[dict[str, Any]]) -> types_pb2.PlanDraft:
    try:
        return arguments.plan_of(tasks, "plan")
    except CliError as error:
        raise ToolError(error.message) from error


def _shown(one: Message | Record, within: Bounds = _ROW) -> Answer:
    """Return a record or message within bounds, without what is empty."""
    return document(one, defaults=False, within=within)


def _run(run: Run) -> Answer:
    """Return a run, with a sentence about what it waits for."""
    return {**_shown(run), "waits_for": describe.blocked(run, exact=True)}


def _answered(run: RunHandle) -> Answer:
    """Return the result of a start, a fork or a command; its run as in other answers."""
    response = run.response
    assert response is not None
    flags = [one for one in ("created", "changed") if hasattr(response, one)]
    made = {**_shown(response), **{one: getattr(response, one) for one in flags}}
    return made if run.snapshot is None else {**made, "run": _run(run.snapshot)}


def _event(event: Event) -> Answer:
    """Return an event without the rows that it has changed."""
    fields = _shown(event).items()
    return {name: value for name, value in fields if not isinstance(value, dict | list)}


async def _events(client: Client, run: Run, after: int, seconds: float) -> tuple[list[Event], bool]:
    """Return events from the one after `after` until the run stands still or the time is over; and whether there are more."""
    found: list[Event] = []
    status = run.status
    try:
        async with asyncio.timeout(seconds), client.run(run.id).watch(after) as events:
            async for event in events:
                found.append(event)
                if event.number < run.last_event:
                    if len(found) == EVENTS_MAX:
                        return found, True
                    continue
                if event.number > run.last_event:
                    status = event.run.get("status", status)
                if stands_still(status) or len(found) == EVENTS_MAX:
                    break
    except TimeoutError:
        pass
    return found, False


async def _questions(client: Client, run: Run) -> list[Question]:
    """Return the run's open questions, oldest first."""
    if run.status in (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED):
        return []
    found: list[Question] = []
    async for one in client.run(run.id).questions():
        if one.status == QuestionStatus.OPEN:
            found.append(one)
        if len(found) == QUESTIONS_MAX:
            break
    return found


async def _only_question(client: Client, run_id: str) -> str:
    """Return the id of the only open question."""
    asked = await _questions(client, await client.run(run_id).get())
    if not asked:
        raise ToolError("the run waits for no answer")
    if len(asked) > 1:
        names = ", ".join(one.id for one in asked)
        raise ToolError(
            f"the run asks {len(asked)} questions; give the question_id of one: {names}"
        )
    return asked[0].id


async def _result(client: Client, run: Run) -> str | None:
    """Return the result of a run that has succeeded: its own, else those of its tasks by their ids."""
    if run.status != RunStatus.SUCCEEDED:
        return None
    ids = [run.result_id] if run.result_id else []
    read = await client.run(run.id).results(execution_ids=ids)
    if read.run_result is not None:
        return _result_text(read.run_result)
    done = [one for one in read.results if one.status == TaskStatus.COMPLETED]
    return _result_text({one.task_id: one for one in done})


def _result_text(result: results.RunResult) -> str:
    """Return a result, or several by their tasks' ids, as text."""
    return _RESULT.cut(json_text(results.plain(result)))


async def _shown_task(client: Client, run: Run, task_id: str) -> Answer:
    """Return a task of a run with its input and result."""
    async for entry in client.run(run.id).tasks(full_specs=True):
        if entry.id == task_id:
            break
    else:
        raise ToolError(f"the run has no task {task_id!r}")
    result = None
    if entry.status == TaskStatus.COMPLETED:
        read = await client.run(run.id).results(task_ids=[task_id])
        result = next((_result_text(one) for one in read.results), None)
    given = entry.definition.input
    is_given = isinstance(given, Payload)
    return {
        "run": _run(run),
        "tasks": [_shown(entry)],
        "result": result,
        "task_input": _result_text(Result(payload=given)) if is_given else None,
    }
