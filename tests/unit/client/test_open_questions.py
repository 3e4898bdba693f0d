"""Questions that a step opens: their tokens are kept in its journal, and their answers come once."""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell_client import OpenQuestion, TaskContext
from stepwell_client.answer_tokens import SECRET_MEDIA_TYPE, sha256_of
from stepwell_client.v1 import types_pb2
from tests.support.journal import JournaledStep, result_of

SEVEN = types_pb2.Payload(data=b"7")


async def test_token_is_kept_in_the_journal_before_its_question_is_opened() -> None:
    step, tokens = JournaledStep(), list[str]()
    kept_at_opening: list[str] = []

    def opened(key: str) -> None:
        kept_at_opening.extend(one.name for one in step.services.entries.values())
        step.services.put_end(key, value=SEVEN, arguments=step.services.opened[-1].arguments)

    step.services.on_open = opened

    async def work(ctx: TaskContext) -> Any:
        question = await ctx.open_question("paid?", as_=int)
        tokens.append(question.token)
        assert question.token not in repr(question)
        return await question.answer()

    for _ in range(2):
        assert result_of(await step.attempt(work)) == 7
    assert kept_at_opening == ["token"]
    assert len(set(tokens)) == 1
    (call,) = step.services.opened
    assert call.ask.token_sha256 == sha256_of(tokens[0])
    (kept,) = [one for one in step.services.entries.values() if one.name == "token"]
    assert kept.value.media_type == SECRET_MEDIA_TYPE


async def test_questions_have_tokens_of_their_own_and_are_awaited_together() -> None:
    step, questions = JournaledStep(), list[OpenQuestion]()

    def opened(key: str) -> None:
        step.services.put_end(key, value=SEVEN, arguments=step.services.opened[-1].arguments)

    step.services.on_open = opened

    async def work(ctx: TaskContext) -> Any:
        for key in (None, "own"):
            questions.append(await ctx.open_question("paid?", as_=int, key=key))
        return await asyncio.gather(*(one.answer() for one in (*questions, *questions)))

    assert result_of(await step.attempt(work)) == [7] * 4
    assert len({one.token for one in questions}) == 2


async def test_forgotten_question_loses_its_token() -> None:
    step, tokens = JournaledStep(), list[str]()

    def opened(key: str) -> None:
        step.services.put_end(key, value=SEVEN, arguments=step.services.opened[-1].arguments)

    step.services.on_open = opened

    async def work(ctx: TaskContext) -> Any:
        tokens.append((await ctx.open_question("paid?", key="paid")).token)
        await ctx.forget("paid")
        tokens.append((await ctx.open_question("paid?", key="paid")).token)

    await step.attempt(work)
    assert len(set(tokens)) == 2
