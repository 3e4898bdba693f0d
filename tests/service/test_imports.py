"""The libraries that a start doesn't import: each costs tens of milliseconds, whatever it is imported for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LISTENING = """
import asyncio, sys
import stepwell.__main__, stepwell.cli.commands.server
from stepwell.config import load
from stepwell.rpc.server import Server

async def main(folder):
    listen = {"grpc": {"port": 0}, "auth": {"token_file": f"{folder}/token"}}
    async with Server(load({**listen, "store": {"url": f"sqlite:///{folder}/stepwell.db"}})):
        print(*sys.modules)

asyncio.run(main(sys.argv[1]))
"""
EMBEDDED = """
import asyncio, sys
from stepwell.embedded import Orchestrator
from stepwell_client import Agent, Task

agent = Agent()
agent.task(lambda ctx: 1)
asyncio.run(Orchestrator("", agent, plan=[Task("one")]).run())
print(*sys.modules)
"""
ELSEWHERE = {"rich", "pygments", "cryptography", "google.protobuf.json_format"}
"""Libraries that print tables and documents, or make certificates."""
LATER = {"alembic", "mako", "jsonschema", "referencing", "re2"}
"""Libraries that make the tables of a store, or look at the first schema of a payload."""
OTHERS = {"asyncpg", "redis", "hiredis", "stepwell_drivers.remote", "stepwell_drivers.memory"}
"""Needs of other drivers."""
SERVING = {
    "pydantic",
    "typer",
    "stepwell.rpc.gate",
    "stepwell.rpc.server",
    "stepwell.cli",
    "stepwell.console",
}
"""Needs of a server, its commands and its settings."""
SERVERS = {"stepwell", "stepwell_drivers", "sqlalchemy", "pydantic", "msgspec", "typer"}


def modules(program: str, *arguments: str) -> set[str]:
    """Run a program that prints its modules; return them."""
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(ran.stdout.splitlines()[-1].split())


def test_server_that_listens_has_imported_nothing_that_it_does_not_use_yet(tmp_path: Path) -> None:
    made = modules(LISTENING, str(tmp_path))
    assert "alembic" in made, "the tables were not made by the first start"

    found = modules(LISTENING, str(tmp_path))

    assert found & (ELSEWHERE | LATER | OTHERS | {"stepwell.embedded"}) == set()


def test_embedded_run_in_memory_imports_no_server_and_no_database() -> None:
    found = modules(EMBEDDED)

    assert found & (ELSEWHERE | LATER | OTHERS | SERVING | {"sqlalchemy"}) == {
        "stepwell_drivers.memory"
    }


def test_client_imports_nothing_of_the_server_and_no_printing_of_messages() -> None:
    found = modules("import stepwell_client, sys; print(*sys.modules)")

    assert found & (ELSEWHERE | LATER | OTHERS | SERVERS) == set()
