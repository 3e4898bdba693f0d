"""An agent that chats: one task answers one message. It can order things, if the person agrees.

stepwell worker examples.chat.agent:agent --queue chat
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from examples.chat.model import Message, Order, stream
from stepwell_client import Agent, QuestionKind, TaskContext

ORDERS = Path(os.environ.get("CHAT_ORDERS", "orders.txt"))

agent = Agent("chat")


@dataclass
class Said:
    """An answer of the model: its text, and what it wants to order, if anything."""

    text: str = ""
    order: str = ""


@agent.task("reply")
async def reply(ctx: TaskContext) -> str:
    async def ask_model(talk: list[Message], at: int) -> Said:
        said = Said()
        async for token in stream(talk):
            if isinstance(token, Order):
                said.order = token.what
            else:
                # A token has its place, so that one that comes again, from another attempt, is shown once. It is
                # a line, because tokens that come together are sent as one chunk.
                ctx.stream(json.dumps({"at": at + len(said.text), "text": token}) + "\n")
                said.text += token
        return said

    def order(what: str) -> str:
        return place_order(ctx.call_key, what)

    talk = [Message("user", ctx.goal)]
    text = ""
    while True:
        said = await ctx.call("model", ask_model, talk, len(text), as_=Said)
        text += said.text
        if not said.order:
            return text
        talk.append(Message("assistant", said.text))
        agreed = await ctx.ask(f"Order {said.order}?", kind=QuestionKind.APPROVAL, as_=bool)
        done = await ctx.call("order", order, said.order) if agreed else "That was not ordered."
        talk.append(Message("tool", done))


def place_order(key: str, what: str) -> str:
    """Order something, once for each key, as a shop with idempotency keys does."""
    with ORDERS.open("a+", encoding="utf-8") as file:
        file.seek(0)
        if not any(line.startswith(f"{key} ") for line in file):
            file.write(f"{key} {what}\n")
    return f"I have ordered {what}."
