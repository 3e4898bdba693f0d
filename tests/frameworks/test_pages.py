"""The snippets of the documents about frameworks run, in their order."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType

import pytest
from opentelemetry import context, trace

from stepwell.rpc.server import Server
from tests.docs import conftest
from tests.docs.pages import TOP, blocks, compiled

server = conftest.server


# LangGraph's own prebuilt agent is on the page, because LangChain isn't among the frameworks here.
@pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecatedSinceV10")
@pytest.mark.parametrize(("name", "snippets"), [("frameworks", 12)])
async def test_snippets_of_the_page_run_in_their_order(
    name: str, snippets: int, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    path = TOP / "docs" / f"{name}.md"
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    found = blocks(path, "python")
    assert len(found) == snippets
    for block in found:
        await asyncio.to_thread(exec, compiled(path, block), vars(module))


async def test_both_attempts_and_their_call_are_in_the_trace_of_the_request(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = TOP / "docs" / "how-to" / "trace-requests.md"
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    (block,) = blocks(page, "python")
    caller = trace.SpanContext(0xA1B2, 0xC3, is_remote=False, trace_flags=trace.TraceFlags(1))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(caller)))
    try:
        await asyncio.to_thread(exec, compiled(page, block), vars(module))
    finally:
        context.detach(token)
    said = capsys.readouterr().out.splitlines()
    ending = f"in trace {trace.format_trace_id(0xA1B2)}"
    assert said == [
        *(f"{what} {ending}" for what in ("attempt 1", "model asked", "attempt 2")),
        "Hello, Ada!",
    ]
