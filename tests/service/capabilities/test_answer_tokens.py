"""Questions that have a token: whoever has it answers that one question, once, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest

from stepwell.core.records import limits
from stepwell_client import (
    Agent,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    Payload,
    PlanContext,
    Question,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_client import Client as StepwellClient
from stepwell_client.answer_tokens import TOKEN_PREFIX, new_answer_token
from stepwell_client.enums import QuestionStatus
from stepwell_client.v1 import types_pb2
from tests.service.capabilities.conftest import Served
from tests.service.conftest import NO_RUN, Client, bearer
from tests.service.token_questions import TENANT, ask_by_token
from tests.support.patience import until


@pytest.fixture
async def raw(served: Served) -> AsyncIterator[Client]:
    client = Client(served.target)
    yield client
    await client.channel.close()


def anybody(served: Served) -> StepwellClient:
    """Return a client with a credential that the server doesn't know."""
    client = StepwellClient(served.target, token="nothing that it knows")
    served._stack.push_async_callback(client.close)
    return client


async def question_of(served: Served, run_id: str) -> Question:
    (found,) = [one async for one in served.client.run(run_id).questions()]
    return found


async def test_token_answers_its_question_once_without_a_credential(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    client = Client(served.target)
    linked = await ask_by_token(client)
    holder = anybody(served)
    changed = await holder.answer_by_token(linked.token, {"paid": 5, "by": "card"})
    assert changed or not served.calm
    # The same answer, in another order of its keys, is no other answer.
    again = Payload(b'{"by": "card",  "paid": 5}')
    assert await holder.answer_by_token(linked.token, again) is False
    with pytest.raises(FailedPrecondition) as second:
        await holder.answer_by_token(linked.token, {"paid": 6, "by": "card"})
    assert second.value.reason == "QUESTION_ANSWERED"

    asked = await question_of(served, linked.run_id)
    assert (asked.status, asked.answered_by) == (QuestionStatus.ANSWERED, "token")
    journal = [one async for one in served.client.run(linked.run_id).journal()]
    assert [(one.key, one.name) for one in journal] == [("link", "ask")]
    await client.channel.close()


async def test_every_wrong_token_is_answered_the_same(served: Served, raw: Client) -> None:
    linked = await ask_by_token(raw)
    plain = await ask_by_token(raw)
    foreign = Client(served.target, bearer("foreign"))
    other = await ask_by_token(foreign, "tenant-b")
    await foreign.channel.close()
    new_id = served.server.deps.runtime.new_id
    wrong = {
        "no token": "nothing",
        "empty form": TOKEN_PREFIX,
        "no base64": f"{TOKEN_PREFIX}!!!!",
        "cut": linked.token[:-4],
        "longer": f"{linked.token}AAAA",
        "another case": linked.token.swapcase(),
        "another secret": new_answer_token(TENANT, linked.run_id, new_id),
        "a missing run": new_answer_token(TENANT, NO_RUN, new_id),
        "another tenant's run": new_answer_token(TENANT, other.run_id, new_id),
        "a missing tenant": new_answer_token("tenant-z", linked.run_id, new_id),
        "a tenant that is no name": new_answer_token("a{b}\n*", linked.run_id, new_id),
        "a run that is no name": new_answer_token(TENANT, "../..", new_id),
    }
    said = set[tuple[str, str]]()
    for what, token in wrong.items():
        with pytest.raises(NotFound) as refused:
            await served.client.answer_by_token(token, {"a": 1})
        assert refused.value.reason == "TOKEN_NOT_FOUND", what
        said.add((type(refused.value).__name__, str(refused.value)))
    assert len(said) == 1
    assert (await question_of(served, plain.run_id)).status == QuestionStatus.OPEN
    assert await served.client.answer_by_token(other.token, 1)


async def test_answer_by_token_is_checked_like_any_answer(served: Served, raw: Client) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    linked = await ask_by_token(raw, schema=json.dumps(schema))
    for answer, fields in (({"n": "one"}, ["answer.n"]), ({}, ["answer"])):
        with pytest.raises(InvalidRequest) as refused:
            await anybody(served).answer_by_token(linked.token, answer)
        assert refused.value.reason == "ANSWER_INVALID"
        assert [one.field for one in refused.value.violations] == fields
    assert await anybody(served).answer_by_token(linked.token, {"n": 1})


async def test_token_ends_with_its_question(served: Served, raw: Client) -> None:
    linked = await ask_by_token(raw)
    await served.client.run(linked.run_id).cancel()
    with pytest.raises(FailedPrecondition) as cancelled:
        await served.client.answer_by_token(linked.token, 1)
    assert cancelled.value.reason == "QUESTION_CANCELLED"
    await served.client.run(linked.run_id).delete()
    with pytest.raises(NotFound) as gone:
        await served.client.answer_by_token(linked.token, 1)
    assert gone.value.reason == "TOKEN_NOT_FOUND"


async def test_one_of_two_concurrent_answers_by_a_token_counts(served: Served, raw: Client) -> None:
    linked = await ask_by_token(raw)
    answers = [anybody(served).answer_by_token(linked.token, n) for n in (1, 2)]
    said = await asyncio.gather(*answers, return_exceptions=True)
    (late,) = [one for one in said if one is not True]
    assert isinstance(late, FailedPrecondition)
    assert late.reason == "QUESTION_ANSWERED"


async def test_answer_by_credential_ends_the_token(served: Served, raw: Client) -> None:
    linked = await ask_by_token(raw)
    asked = await question_of(served, linked.run_id)
    await served.client.run(linked.run_id).answer(asked.id, 1)
    with pytest.raises(FailedPrecondition) as late:
        await served.client.answer_by_token(linked.token, 2)
    assert late.value.reason == "QUESTION_ANSWERED"


async def test_no_read_of_the_tenant_shows_a_token(served: Served, raw: Client) -> None:
    linked = await ask_by_token(raw)
    run_id = linked.run_id
    assert await served.client.answer_by_token(linked.token, 1)
    watched = await served.client.run(run_id).cancel()
    seen = [repr(watched)]
    handle = served.client.run(run_id)
    for read in (handle.questions, handle.tasks, handle.executions, handle.journal):
        seen += [repr(one) async for one in read()]
    async with handle.watch() as events:
        seen += [repr(one) async for one in events]
    assert "link" in str(seen)
    secret = linked.token.removeprefix(TOKEN_PREFIX)
    assert secret not in str(seen)


async def test_answers_of_an_address_are_limited(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWERS_BY_TOKEN_EACH_MAX", 3)
    replica = await served.replica()
    raw = Client(replica.addresses[0])
    answer = types_pb2.Payload(data=b"1")
    codes = [await _code(raw.ask("AnswerByToken", token="x", answer=answer)) for _ in range(4)]
    assert codes == ["NOT_FOUND"] * 3 + ["RESOURCE_EXHAUSTED"]
    await raw.channel.close()


async def _code(call: object) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call  # pyright: ignore[reportGeneralTypeIssues] - a call of gRPC's
    return refused.value.code().name


# --- questions that a step opens ------------------------------------------------------------------


def linking(sent: list[str], seen: list[str]) -> Agent:
    """Return an agent that sends a question's token off, and waits for the answer."""
    agent = Agent("linking")

    async def send(token: str) -> None:
        sent.append(token)

    @agent.task("pay")
    async def pay(ctx: TaskContext) -> int:
        question = await ctx.open_question("paid?", as_=int)
        seen.append(question.token)
        await ctx.call("send", send, question.token)
        return await question.answer()

    @agent.plan
    async def plan(ctx: PlanContext) -> list[Task]:
        question = await ctx.open_question("what?", schema={"type": "string"}, key="what")
        seen.append(question.token)
        return [Task(await question.answer(), "pay")]

    return agent


async def test_step_opens_a_question_and_goes_on_with_the_answer(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    sent, seen = list[str](), list[str]()
    async with served.worker(linking(sent, seen)):
        run = await served.client.start("pay", plan=[Task("a", "pay")])

        async def is_suspended() -> bool:
            return (await run.get()).status == RunStatus.WAITING

        await until(is_suspended)
        assert len(sent) == 1
        assert await anybody(served).answer_by_token(sent[0], 5) or not served.calm
        assert await run.result() == {"a": 5}
    # The attempt after the answer had the same token, and sent it to nobody else.
    assert set(seen) == set(sent)
    assert len(seen) >= 2
    assert len(sent) == 1


async def test_question_is_open_before_its_step_goes_on(served: Served) -> None:
    agent, answered = Agent("linking"), list[bool]()

    @agent.task("pay")
    async def pay(ctx: TaskContext) -> int:
        question = await ctx.open_question("paid?", as_=int)
        if not answered:
            answered.append(await anybody(served).answer_by_token(question.token, 7))
        return await question.answer()

    async with served.worker(agent):
        run = await served.client.start("pay", plan=[Task("a", "pay")])
        assert await run.result() == {"a": 7}
    assert answered == [True]


async def test_planner_opens_a_question_too(served: Served) -> None:
    sent, seen = list[str](), list[str]()
    async with served.worker(linking(sent, seen)):
        run = await served.client.start("pay")
        await until(lambda: bool(seen))
        assert await anybody(served).answer_by_token(seen[0], "first")
        await until(lambda: bool(sent))
        assert await anybody(served).answer_by_token(sent[0], 1)
        assert await run.result() == {"first": 1}


async def test_journal_shows_no_token_of_a_question(served: Served) -> None:
    agent = Agent("linking")
    seen = list[str]()

    @agent.task("pay")
    def pay(ctx: TaskContext) -> int:
        question = ctx.open_question_sync("paid?", as_=int)
        seen.append(question.token)
        return question.answer_sync()

    async with served.worker(agent):
        run = await served.client.start("pay", plan=[Task("a", "pay")])
        await until(lambda: bool(seen))
        entries = [one async for one in run.journal(values=True)]
        assert [one.name for one in entries] == ["token"]
        assert entries[0].value is not None
        assert entries[0].value.data == b""
        assert "token" not in repr(await run.get())
        assert await anybody(served).answer_by_token(seen[0], 1)
        assert await run.result() == {"a": 1}
