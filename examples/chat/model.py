"""A scripted model in the place of a real one, so that the chat needs no network and no key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass
class Message:
    """A message of the talk, by the `user`, the `assistant` or a `tool`."""

    role: str
    text: str


@dataclass
class Order:
    """The model wants its tool: something is to be ordered."""

    what: str


@dataclass
class Answer:
    """A whole answer: its text, and the order that is wanted, if any."""

    text: str = ""
    order: str = ""


async def stream(talk: list[Message], pace_seconds: float = 0.1) -> AsyncIterator[str | Order]:
    """Yield the answer to the last message word by word, and an Order after it if one is wanted."""
    last = talk[-1]
    wanted = last.text.removeprefix("order ") if last.text.startswith("order ") else ""
    if last.role == "tool":
        answer = f"{last.text} Is there anything else that I can do for you?"
    elif wanted:
        answer = "I can do that for you. It costs money, so please agree first."
    else:
        said = sum(message.role == "user" for message in talk)
        answer = f"“{last.text}” is message {said} of yours. I am a script: say “order three lamps”, and I ask first."
    for word in answer.split(" "):
        await asyncio.sleep(pace_seconds)
        yield f"{word} "
    if wanted:
        yield Order(wanted)
