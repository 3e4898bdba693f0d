"""An agent whose work is done by a command-line program that keeps its own conversations.

The task tells the service the program's session id as soon as it knows it. When its worker dies, the next
attempt is given that id and has the program go on with the same conversation: nothing that it has thought
is thought again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from stepwell_client import Agent, Failure, TaskContext

BACKEND = "notetaker"
PROGRAM = (sys.executable, "-m", "examples.cli_agent.notetaker")

agent = Agent("cli-agent")


@dataclass
class Request:
    """The text to be read, as the task's input."""

    text: str
    """The file."""
    home: str
    """The folder of the program's conversations; all workers must see the same."""


@dataclass
class Notes:
    """The result of reading a text."""

    session_id: str
    resumed_at: int
    """The number of notes when this attempt began."""
    notes: list[str]


@agent.task("take-notes")
async def take_notes(ctx: TaskContext, request: Request) -> Notes:
    """Run the program, or go on with the conversation that an interrupted attempt has begun."""
    arguments = [request.text, "--home", request.home, "--pace", os.environ.get("PACE", "0")]
    session = ctx.previous_session
    if session is not None and session.backend == BACKEND:
        arguments += ["--resume", session.session_id]
        ctx.log(f"goes on with conversation {session.session_id}")
    session_id, notes, resumed_at = "", 0, 0
    async with running(arguments) as process:
        async for said in lines_of(process):
            if said["type"] == "session":
                session_id = said["session_id"]
                notes = resumed_at = said["notes"]
                ctx.session(BACKEND, session_id)
            elif said["type"] == "text":
                ctx.stream(said["text"])
                notes += 1
                ctx.heartbeat({"notes": notes})
            elif said["type"] == "result":
                return Notes(session_id, resumed_at, said["notes"])
        raise Failure(await why(process), kind="PROGRAM_FAILED")


@asynccontextmanager
async def running(arguments: list[str]) -> AsyncIterator[Process]:
    """Run the program; it never outlives the block."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def lines_of(process: Process) -> AsyncIterator[dict[str, Any]]:
    """Yield the lines that the program prints."""
    assert process.stdout is not None
    async for line in process.stdout:
        yield json.loads(line)


async def why(process: Process) -> str:
    """Return the end of the program's error output."""
    assert process.stderr is not None
    words = (await process.stderr.read()).decode("utf-8", "replace").strip()
    return words.splitlines()[-1] if words else "the program ended without a result"
