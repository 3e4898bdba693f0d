"""An MCP server with one tool, over standard input and output, that notes in a file what was asked of it."""

from __future__ import annotations

import os
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("shelves", instructions="Ask for a shelf.")


@server.tool()
def count(shelf: str) -> str:
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{shelf}\n")
    return f"three on {shelf}"


if __name__ == "__main__":
    server.run("stdio")
