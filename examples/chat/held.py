"""The chat's agent for the demo: its model stops in the middle of each answer while a file is there.

So the demo kills at the right moment, however slow the machine is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from examples.chat import agent as chat
from examples.chat.model import Message, Order, stream

HOLD = Path(os.environ.get("CHAT_HOLD", "hold"))
WORDS = 4
"""Words of an answer that come before the model stops."""
PACE_SECONDS = 0.03

agent = chat.agent


async def held(talk: list[Message]) -> AsyncIterator[str | Order]:
    """Stream what the scripted model says, faster than it does it for people."""
    number = 0
    async for token in stream(talk, PACE_SECONDS):
        yield token
        number += 1
        while number == WORDS and await asyncio.to_thread(HOLD.exists):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.02)


chat.stream = held
