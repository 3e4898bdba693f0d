"""One step through an agent's function: what it is given, and what its answers become."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stepwell_client import (
    Agent,
    Continue,
    Effect,
    Failure,
    Finish,
    NeedsAnswer,
    NonRetryable,
    OnFailure,
    Plan,
    PlanContext,
    QuestionKind,
    Release,
    Replan,
    Retry,
    Task,
    TaskContext,
    current_step,
    decode,
    encode,
)
from stepwell_client.agent import threads
from stepwell_client.agent.contexts import warn_outside
from stepwell_client.errors import LeaseLost
from stepwell_client.internal import journaled_step
from stepwell_client.v1 import types_pb2, worker_pb2
from tests.support.patience import until
from tests.support.steps import FakeServices, Order, assignment, outcome_of, run

PLAN = types_pb2.STEP_KIND_PLAN
REFLECT = types_pb2.STEP_KIND_REFLECT
SYNTHESIZE = types_pb2.STEP_KIND_SYNTHESIZE


async def test_function_knows_its_step_and_the_outcome_carries_the_lease() -> None:
    def work(ctx: TaskContext) -> list[Any]:
        limits = [ctx.iteration, ctx.max_iterations, ctx.attempt]
        return [ctx.goal, *limits, ctx.task_id, ctx.task.type]

    outcome = await outcome_of(work, type_="x")

    assert decode(outcome.completed.result) == ["a goal", 1, 10, 1, "t1", "x"]
    assert (outcome.lease.execution_id, outcome.lease.token) == ("e1", "token-e1")
    assert outcome.lease.run_id
    assert outcome.delivery_id == ""
    nothing = await outcome_of(lambda ctx: None)
    assert nothing.HasField("completed")
    assert not nothing.completed.HasField("result")


def fail(ctx: TaskContext) -> None:
    raise KeyError("no such thing")


async def async_fail(ctx: TaskContext) -> None:
    raise KeyError("no such thing")


@pytest.mark.parametrize("function", [fail, async_fail])
async def test_an_exception_is_data_with_its_traceback(function: Any) -> None:
    failure = (await outcome_of(function)).failed.failure

    assert (failure.kind, failure.message) == ("KeyError", "'no such thing'")
    assert not failure.HasField("retryable")
    assert failure.details.startswith("Traceback")
    assert 'raise KeyError("no such thing")' in failure.details
    assert "stepwell_client/" not in failure.details


async def test_the_traceback_of_an_unexpected_exception_is_in_both_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, services = Agent(), FakeServices()
    agent.task("fail")(fail)

    @agent.task("refuse")
    def refuse(ctx: TaskContext) -> None:
        raise NonRetryable("no", kind="HOPELESS")

    outcomes = [await run(agent, assignment(type_=type_), services) for type_ in ("fail", "refuse")]

    details = outcomes[0].failed.failure.details
    assert services.written == [(details, "ERROR", False)]
    assert services.flushes == 1
    assert details in caplog.messages[0]
    assert caplog.messages[1].endswith("failed: HOPELESS: no")


async def test_a_failure_says_its_kind_and_whether_to_try_again() -> None:
    class RateLimited(Failure):
        pass

    async def limited(ctx: TaskContext) -> None:
        raise RateLimited("slow down", retryable=True, retry_after=1.5)

    def hopeless(ctx: TaskContext) -> None:
        raise NonRetryable("no", kind="HOPELESS")

    first = (await outcome_of(limited)).failed.failure
    second = (await outcome_of(hopeless)).failed.failure

    assert (first.kind, first.message, first.retryable) == ("RateLimited", "slow down", True)
    assert first.retry_after.ToMilliseconds() == 1_500
    assert not second.HasField("retry_after")
    with pytest.raises(ValueError, match="retry_after is -1"):
        Failure("", retry_after=-1)
    assert (second.kind, second.message, second.retryable) == ("HOPELESS", "no", False)


@pytest.mark.parametrize(
    "error", [SystemExit(3), StopIteration(1), asyncio.CancelledError(), LeaseLost("another's")]
)
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_no_exception_of_an_agent_ends_the_worker(
    error: BaseException, asynchronous: bool
) -> None:
    async def later(ctx: TaskContext) -> None:
        raise error

    def now(ctx: TaskContext) -> None:
        raise error

    failure = (await outcome_of(later if asynchronous else now)).failed.failure

    assert failure.kind in (type(error).__name__, "RuntimeError")


async def test_text_that_is_too_long_or_no_utf8_is_cut_and_escaped() -> None:
    class Awful(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def long(ctx: TaskContext) -> None:
        raise ValueError("\udcff" + "é" * 100_000)

    def awful(ctx: TaskContext) -> None:
        raise Awful

    failure = (await outcome_of(long)).failed.failure
    assert len(failure.message.encode()) <= 65_536
    assert failure.message.startswith("\\udcffé")
    assert len(failure.details.encode()) <= 65_536
    assert "text can't be had" in (await outcome_of(awful)).failed.failure.message


@pytest.mark.parametrize("value", [object(), float("nan"), {1: object()}, {"a": {1, 2}}])
async def test_a_result_without_a_json_form_fails_for_good(value: object) -> None:
    failure = (await outcome_of(lambda ctx: value)).failed.failure

    assert (failure.kind, failure.retryable) == ("INVALID_RESULT", False)


async def test_a_plan_goes_out_as_it_was_written() -> None:
    agent = Agent()

    @agent.plan
    async def plan(ctx: PlanContext, order: Order) -> Plan:
        tasks = [
            Task("a", "buy", order, title="Buy", retry=Retry(max_attempts=5, initial_backoff=0.25)),
            Task(
                "b",
                depends_on=["a"],
                on_failure=OnFailure.CONTINUE,
                effect=Effect.AT_MOST_ONCE,
                attempt_timeout=90,
            ),
        ]
        return Plan(tasks, reason="two steps")

    outcome = await run(agent, assignment(kind=PLAN, run_input={"item": "a", "count": 2}))

    first, second = outcome.planned.plan.tasks
    assert outcome.planned.reason == "two steps"
    assert (first.task_id, first.type, first.title) == ("a", "buy", "Buy")
    assert decode(first.input, Order) == Order(item="a", count=2)
    assert first.retry.max_attempts == 5
    assert first.retry.initial_backoff.ToMilliseconds() == 250
    assert not first.retry.HasField("jitter")
    assert list(second.depends_on) == ["a"]
    assert second.on_failure == types_pb2.ON_FAILURE_CONTINUE
    assert second.effect == types_pb2.EFFECT_AT_MOST_ONCE
    assert second.attempt_timeout.seconds == 90


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        *((PLAN, value, "plan") for value in (None, "plan", {"tasks": []}, [1], 3)),
        (REFLECT, True, "Finish, Continue or Replan"),
    ],
)
async def test_invalid_plan_or_decision_fails_for_good(
    kind: Any, value: object, words: str
) -> None:
    agent = Agent()
    agent.plan(lambda ctx: value)
    agent.reflect(lambda ctx: value)

    failure = (await run(agent, assignment(kind=kind))).failed.failure

    assert (failure.kind, failure.retryable) == ("INVALID_RESULT", False)
    assert words in failure.message


@pytest.mark.parametrize(
    ("decision", "wire"),
    [
        (Finish("enough"), types_pb2.DECISION_FINISH),
        (Replan("wrong"), types_pb2.DECISION_REPLAN),
        (Continue([Task("c")], "more"), types_pb2.DECISION_CONTINUE),
    ],
)
async def test_a_reflection_decides(decision: Any, wire: int) -> None:
    agent = Agent()
    agent.reflect(lambda ctx: decision)

    reflected = (await run(agent, assignment(kind=REFLECT))).reflected

    assert (reflected.decision, reflected.reason) == (wire, decision.reason)
    assert [task.task_id for task in reflected.plan.tasks] == (
        ["c"] if wire == types_pb2.DECISION_CONTINUE else []
    )


async def test_results_are_decoded_and_failures_stand_apart() -> None:
    results = [
        worker_pb2.DependencyResult(task_id="a", payload=encode({"item": "x", "count": 1})),
        worker_pb2.DependencyResult(task_id="b", failure=types_pb2.Failure(kind="Oops")),
        worker_pb2.DependencyResult(task_id="c", skipped=True),
        worker_pb2.DependencyResult(task_id="d"),
    ]
    agent, seen = Agent(), []

    @agent.synthesize
    async def synthesize(ctx: Any) -> None:
        seen.append(
            (dict(ctx.results), ctx.result("a", Order), ctx.failures["b"].kind, ctx.skipped)
        )

    await run(agent, assignment(kind=SYNTHESIZE, results=results))

    first = {"item": "x", "count": 1}
    assert seen == [({"a": first, "d": None}, Order(item="x", count=1), "Oops", frozenset("c"))]


async def test_failed_outcome_carries_progress_usage_and_session() -> None:
    def work(ctx: TaskContext) -> None:
        ctx.usage(input_tokens=10, output_tokens=2)
        ctx.usage(input_tokens=5, cost_micros=7)
        ctx.session("backend", "s1")
        ctx.transcript(prompt="ask", response="said \udcff")
        ctx.append("assistant", "hello")
        raise ValueError

    outcome = await outcome_of(work)

    assert outcome.usage == types_pb2.Usage(input_tokens=15, output_tokens=2, cost_micros=7)
    assert outcome.session == types_pb2.Session(backend="backend", session_id="s1")
    assert (outcome.prompt, outcome.response) == ("ask", "said \\udcff")
    assert [message.content for message in outcome.messages] == ["hello"]
    assert outcome.messages[0].session.session_id == "s1"


async def test_limits_of_what_is_said_are_the_function_s_own_error() -> None:
    def work(ctx: TaskContext) -> list[str]:
        problems = []
        for say in (
            lambda: ctx.heartbeat("x" * 20_000),
            lambda: ctx.transcript(prompt="x" * 300_000),
            lambda: ctx.transcript(response="x" * 1_100_000),
            lambda: [ctx.append("a", "b") for _ in range(257)],
        ):
            with pytest.raises(ValueError, match="most") as caught:
                say()
            problems.append(str(caught.value))
        return problems

    assert len(decode((await outcome_of(work)).completed.result)) == 4


async def test_an_interrupted_attempt_finds_what_was_before() -> None:
    def work(ctx: TaskContext) -> list[Any]:
        assert ctx.previous_session is not None
        assert ctx.previous_failure is not None
        return [
            ctx.previous_progress(),
            ctx.previous_session.session_id,
            ctx.previous_failure.kind,
            ctx.answer(),
        ]

    outcome = await outcome_of(
        work,
        previous_progress=encode({"n": 1}),
        previous_session=types_pb2.Session(session_id="s"),
        previous_failure=types_pb2.Failure(kind="k"),
        answer=encode("yes"),
    )

    assert decode(outcome.completed.result) == [{"n": 1}, "s", "k", "yes"]


async def test_needs_answer_and_release_are_outcomes() -> None:
    def ask(ctx: TaskContext) -> None:
        raise NeedsAnswer("go on?", kind=QuestionKind.CHOICE, choices=["yes", "no"], expires=60)

    def give_back(ctx: TaskContext) -> None:
        raise Release("no room")

    asked = (await outcome_of(ask)).needs_answer
    released = await outcome_of(give_back)

    assert (asked.prompt, list(asked.choices)) == ("go on?", ["yes", "no"])
    assert asked.kind == types_pb2.QUESTION_KIND_CHOICE
    assert asked.expires.seconds == 60
    assert released.released.reason == "no room"
    assert (await outcome_of(lambda ctx: (_ for _ in ()).throw(Release()))).HasField("released")


async def test_begin_comes_before_the_function_and_after_its_input_was_read() -> None:
    agent, services, seen = Agent(), FakeServices(), []

    @agent.task
    def pay(ctx: TaskContext, order: Order) -> None:
        seen.append(list(services.begun))

    once = types_pb2.EFFECT_AT_MOST_ONCE
    good = assignment("e1", effect=once, given={"item": "a", "count": 1})
    await run(agent, good, services)
    await run(agent, assignment("e2", effect=once, given=[]), services)

    assert seen == [["e1"]]
    assert services.begun == ["e1"]


async def test_with_manual_begin_the_function_says_when() -> None:
    agent, services, seen = Agent(), FakeServices(), []

    @agent.task("async", manual_begin=True)
    async def pay(ctx: TaskContext) -> None:
        seen.append(len(services.begun))
        await ctx.begin()
        seen.append(len(services.begun))

    @agent.task("sync", manual_begin=True)
    def pay_blocking(ctx: TaskContext) -> None:
        seen.append(len(services.begun))
        ctx.begin_blocking()
        seen.append(len(services.begun))

    for type_ in ("async", "sync"):
        await run(agent, assignment(type_=type_, effect=types_pb2.EFFECT_AT_MOST_ONCE), services)

    assert seen == [0, 1, 1, 2]


async def test_a_refused_begin_is_nobody_s_outcome() -> None:
    services = FakeServices(refuse_begin=LeaseLost("gone"))
    agent = Agent()
    agent.task(lambda ctx: None)

    with pytest.raises(LeaseLost):
        await run(agent, assignment(effect=types_pb2.EFFECT_AT_MOST_ONCE), services)


async def test_cancelled_sync_function_is_notified_and_awaited() -> None:
    agent, started, notified = Agent(), threading.Event(), []

    @agent.task
    def work(ctx: TaskContext) -> None:
        started.set()
        while not ctx.cancelled:
            threading.Event().wait(0.002)
        notified.append(True)
        ctx.check_cancelled()

    task = asyncio.ensure_future(run(agent))
    await until(started.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert notified == [True]


async def test_a_plan_that_is_too_large_says_so() -> None:
    agent = Agent()
    agent.plan(lambda ctx: [Task(f"t{n}", prompt="x" * 200_000) for n in range(20)])

    failure = (await run(agent, assignment(kind=PLAN))).failed.failure

    assert failure.kind == "PLAN_INVALID"
    assert "the plan" in failure.message


def of_here(ctx: TaskContext) -> bool:
    return current_step() is ctx


async def of_a_task(ctx: TaskContext) -> bool:
    return await asyncio.create_task(asyncio.to_thread(of_here, ctx))


@pytest.mark.parametrize("function", [of_here, of_a_task])
async def test_the_running_step_is_found_in_its_tasks_and_threads_alone(function: Any) -> None:
    assert decode((await outcome_of(function)).completed.result) is True
    assert current_step() is None


async def test_durable_code_in_an_executors_thread_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def by_executor(ctx: TaskContext) -> list[bool]:
        with ThreadPoolExecutor(1) as executor:
            alone = [executor.submit(journaled_step).result() for _ in range(2)]
            given = executor.submit(contextvars.copy_context().run, journaled_step).result()
        return [alone == [None, None], given is ctx, await asyncio.to_thread(journaled_step) is ctx]

    warn_outside.cache_clear()
    assert journaled_step() is None
    assert caplog.messages == []
    assert decode((await outcome_of(by_executor)).completed.result) == [True, True, True]
    (warning,) = caplog.messages
    assert "runs outside of any step" in warning
    assert journaled_step() is None


async def test_cancelled_function_that_goes_on_is_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "STUCK_SECONDS", 0)
    go_on = threading.Event()
    waiting = asyncio.ensure_future(threads.finished(threads.Threads("t").call(go_on.wait)))
    await asyncio.sleep(0)
    waiting.cancel()
    await until(lambda: "holds a place of the worker until it returns" in caplog.text)
    assert not waiting.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
