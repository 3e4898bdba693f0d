"""The snippets of docs/how-to/call-a-model.md run with the vendors' own clients, against a server of this machine."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import pytest

from stepwell.rpc.server import Server
from tests.docs import conftest
from tests.docs.pages import TOP, blocks, compiled

server = conftest.server

PAGE = TOP / "docs" / "how-to" / "call-a-model.md"
OPENAI = {
    "id": "chat-1",
    "object": "chat.completion",
    "created": 0,
    "model": "a-model",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Because."},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
ANTHROPIC = {
    "id": "msg-1",
    "type": "message",
    "role": "assistant",
    "model": "a-model",
    "content": [{"type": "text", "text": "Why not."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 4, "output_tokens": 2},
}
ANSWERS: dict[str, dict[str, Any]] = {"/chat/completions": OPENAI, "/v1/messages": ANTHROPIC}


class Model(BaseHTTPRequestHandler):
    """Answers a request as its vendor's API does; the first one of each is refused as too early."""

    asked: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.path)
        is_first = self.asked.count(self.path) == 1
        body = json.dumps({"error": {"message": "slower"}} if is_first else ANSWERS[self.path])
        self.send_response(429 if is_first else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Write nothing: a test says what it has to say by itself."""


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the paths that the vendors' clients ask a server of this machine for."""
    asked = list[str]()
    serving = ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (Model,), {"asked": asked}))
    url = f"http://127.0.0.1:{serving.server_port}"
    for vendor in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{vendor}_BASE_URL", url)
        monkeypatch.setenv(f"{vendor}_API_KEY", "none")
        monkeypatch.setenv(f"{vendor}_MODEL", "a-model")
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield asked
    serving.shutdown()
    thread.join()
    serving.server_close()


async def test_models_are_asked_again_by_the_calls_retry_and_their_tokens_count_once(
    models: list[str],
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in blocks(PAGE, "python"):
        await asyncio.to_thread(exec, compiled(PAGE, block), vars(module))
    assert capsys.readouterr().out == "{'a': 'Because.', 'b': 'Why not.'}\n7\n"
    assert sorted(models) == 2 * ["/chat/completions"] + 2 * ["/v1/messages"]
    for vendor in ("openai", "anthropic"):
        await vars(module)[vendor].close()
