"""An agent whose step gives a question's token away, and waits for the answer."""

from __future__ import annotations

import os
from pathlib import Path

from stepwell_client import Agent, TaskContext

SENT = Path(os.environ.get("SYSTEM_GATES", ".")) / "sent"
agent = Agent("linking")


def send(token: str) -> None:
    """Note who was given a token; a line each."""
    with SENT.open("a") as file:
        print(token, file=file)


@agent.task("pay")
async def pay(ctx: TaskContext) -> int:
    """Return what was answered by the token."""
    question = await ctx.open_question("paid?", as_=int)
    await ctx.call("send", send, question.token)
    return await question.answer()
