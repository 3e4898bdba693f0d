"""An agent that chats: one task answers one message. It can order things, if the person agrees.

stepwell worker examples.chat.agent:agent --queue chat
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from examples.chat.model import Answer, Message, Order, stream
from stepwell_client import Agent, QuestionKind, TaskContext
from stepwell_client.errors import NoSignal

ORDERS = Path(os.environ.get("CHAT_ORDERS", "orders.txt"))

agent = Agent("chat")


@agent.task("reply")
async def reply(ctx: TaskContext) -> str:
    def show(at: int, text: str) -> None:
        # A token has its place, so that one that comes again, from another attempt, is shown once. It is a line,
        # because tokens that come together are sent as one chunk.
        ctx.stream(json.dumps({"at": at, "text": text}) + "\n")

    async def ask_model(talk: list[Message], at: int) -> Answer:
        said = Answer()
        async for token in stream(talk):
            if isinstance(token, Order):
                said.order = token.what
            else:
                show(at + len(said.text), token)
                said.text += token
        return said

    def order(what: str) -> str:
        return place_order(ctx.call_key, what)

    thread = ctx.thread
    assert thread is not None  # The web server starts each run in one.
    before = [Message(one.role, one.content) for one in await thread.messages()]
    new = [Message("user", ctx.goal)]
    text = ""
    while True:
        said = await ctx.call("model", ask_model, before + new, len(text), as_=Answer)
        text += said.text
        new.append(Message("assistant", said.text))
        if said.order:
            agreed = await ctx.ask(f"Order {said.order}?", kind=QuestionKind.APPROVAL, as_=bool)
            done = await ctx.call("order", order, said.order) if agreed else "It isn't ordered."
            new.append(Message("tool", done))
            continue
        try:
            added = (await ctx.receive_nowait("steer"))["goal"]  # What was said meanwhile.
        except NoSignal:
            break
        new.append(Message("user", added))
        show(len(text), quote := f"\n> {added}\n")
        text += quote
    for message in new:
        thread.append(message.role, message.text)  # By the same commit as the result.
    return text


def place_order(key: str, what: str) -> str:
    """Order something, once for each key, as a shop with idempotency keys does."""
    with ORDERS.open("a+", encoding="utf-8") as file:
        file.seek(0)
        if not any(line.startswith(f"{key} ") for line in file):
            file.write(f"{key} {what}\n")
    return f"I have ordered {what}."
