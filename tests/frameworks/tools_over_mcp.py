"""An MCP server over standard input and output, that notes in a file what was asked of it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from mcp.server import MCPServer

numbers = itertools.count(1)
server = MCPServer("shelves", instructions="Ask for a shelf.")


@server.tool()
def count(shelf: str) -> str:
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{shelf}\n")
    return f"three on {shelf}"


@server.tool()
def increment() -> str:
    """Return how often this process was asked, and its id; the process dies at the number in DIES_AT."""
    number = next(numbers)
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{number}\n")
    if os.environ.get("DIES_AT") == str(number):
        os._exit(1)
    return f"{number} of {os.getpid()}"


if __name__ == "__main__":
    server.run("stdio")
