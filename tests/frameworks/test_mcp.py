"""`stepwell mcp` as an assistant sees it: by the SDK's own client, over both transports, on a real server."""

from __future__ import annotations

import json
import re
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from stepwell.cli.mcp.http import Listen, bound
from tests.frameworks.conftest import READER, Served, listening
from tests.service.cli.world import Terminal, end, read_until

TOOLS = {
    *("start_run", "watch_run", "list_runs", "show_run"),
    *("answer_question", "cancel_run", "fork_run", "send_signal"),
}
BYTES_MAX = 100_000
"""The most that a tool answers with."""


def status_of(answer: dict[str, Any]) -> str:
    return answer["run"]["status"].removeprefix("RUN_STATUS_")


def id_of(answer: dict[str, Any]) -> str:
    return answer["run"]["spec"]["run_id"]


class Assistant:
    """Calls tools as a model does: by name, with JSON; an error is a text."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        assert isinstance(result.structured_content, dict)
        assert len(json.dumps(result.structured_content)) < BYTES_MAX
        return result.structured_content

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        (content,) = result.content
        assert isinstance(content, TextContent)
        return content.text

    async def ends(self, run_id: str) -> dict[str, Any]:
        """Watch a run until it has ended or asks; return what was seen last, with all events."""
        events: list[Any] = []
        after = 0
        while True:
            seen = await self("watch_run", run_id=run_id, after=after)
            events += seen["events"]
            after = seen["after"]
            if status_of(seen) not in {"QUEUED", "RUNNING"} and not seen["more"]:
                return {**seen, "events": events}


Connecting = AbstractAsyncContextManager[Assistant]


@asynccontextmanager
async def by_http(url: str, token: str) -> AsyncGenerator[Assistant]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield Assistant(client)


@asynccontextmanager
async def by_stdio(terminal: Terminal) -> AsyncGenerator[Assistant]:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "stepwell", "mcp"],
        env=terminal.variables,
        cwd=terminal.folder,
    )
    async with Client(command) as client:
        yield Assistant(client)


@pytest.fixture(params=["http", "stdio"])
def connection(request: pytest.FixtureRequest, served: Served, url: str) -> Connecting:
    """A connection that the test opens itself: it ends in the task that it began in."""
    return by_http(url, served.token) if request.param == "http" else by_stdio(served.terminal)


async def test_tools_are_described_with_all_their_arguments(connection: Connecting) -> None:
    async with connection as assistant:
        listed = (await assistant.client.list_tools()).tools
        assert {tool.name for tool in listed} == TOOLS
        for tool in listed:
            assert tool.description
            assert tool.output_schema
            assert "context" not in tool.input_schema["properties"]
            assert tool.annotations is not None
            reads = tool.name in {"watch_run", "list_runs", "show_run"}
            assert bool(tool.annotations.read_only_hint) == reads


async def test_run_is_started_watched_to_its_end_and_shown(connection: Connecting) -> None:
    async with connection as assistant:
        started = await assistant(
            "start_run", goal="greet", labels={"by": "test"}, request_id="greet"
        )
        run_id = id_of(started)
        seen = await assistant.ends(run_id)
        assert status_of(seen) == "SUCCEEDED"
        numbers = [one["number"] for one in seen["events"]]
        assert numbers == list(range(1, seen["run"]["last_event"] + 1))
        shown = await assistant("show_run", run_id=run_id)
        assert shown["result"] == "# Report\n\ngreet: a, b"
        assert [one["task"]["status"] for one in shown["tasks"]] == ["TASK_STATUS_COMPLETED"] * 2
        task = await assistant("show_run", run_id=run_id, task_id="a")
        assert (task["task_input"], task["result"]) == ("a", "a")
        again = await assistant(
            "start_run", goal="greet", labels={"by": "test"}, request_id="greet"
        )
        assert (id_of(again), again["created"]) == (run_id, False)
        listed = await assistant("list_runs", statuses=["SUCCEEDED"], labels={"by": "test"})
        assert run_id in [one["spec"]["run_id"] for one in listed["runs"]]


async def test_question_comes_to_the_assistant_and_its_answer_to_the_run(
    connection: Connecting,
) -> None:
    async with connection as assistant:
        plan = [{"id": "q", "type": "question", "input": {"kind": "CHOICE", "choices": ["x", "y"]}}]
        run_id = id_of(await assistant("start_run", plan=plan))
        seen = await assistant.ends(run_id)
        assert status_of(seen) == "WAITING"
        (asked,) = [one["question"] for one in seen["questions"]]
        assert (asked["kind"], asked["choices"], asked["prompt"]) == (
            "QUESTION_KIND_CHOICE",
            ["x", "y"],
            "what of q?",
        )
        refusal = await assistant.refused("answer_question", run_id=run_id, answer="z")
        assert "none of the choices: x, y" in refusal
        await assistant("answer_question", run_id=run_id, answer="y", reason="she says so")
        assert status_of(await assistant.ends(run_id)) == "SUCCEEDED"
        assert json.loads((await assistant("show_run", run_id=run_id))["result"]) == {"q": "y"}
        refusal = await assistant.refused("answer_question", run_id=run_id, answer="y")
        assert "waits for no answer" in refusal


async def test_signal_of_the_assistant_comes_to_the_run_once(connection: Connecting) -> None:
    async with connection as assistant:
        run_id = id_of(await assistant("start_run", plan=[{"id": "r", "type": "receive"}]))
        signal = {"run_id": run_id, "name": "note", "value": {"text": "prices"}}
        sent = await assistant("send_signal", **signal, request_id=run_id)
        assert sent["changed"] is True
        again = await assistant("send_signal", **signal, request_id=run_id)
        assert again["changed"] is False
        seen = await assistant.ends(run_id)
        assert status_of(seen) == "SUCCEEDED"
        (event,) = [one for one in seen["events"] if one["type"] == "EVENT_TYPE_SIGNAL_RECEIVED"]
        assert (event["message"], event["on_behalf_of"]) == ("note", "mcp")
        shown = await assistant("show_run", run_id=run_id)
        assert json.loads(shown["result"]) == {"r": {"text": "prices"}}
        assert "run is over" in await assistant.refused("send_signal", **signal)


async def test_run_is_cancelled_and_a_fork_of_it_checked_and_made(connection: Connecting) -> None:
    async with connection as assistant:
        plan = [
            {"id": "a", "type": "echo", "input": 1},
            {"id": "b", "type": "ask", "depends_on": ["a"]},
        ]
        run_id = id_of(await assistant("start_run", plan=plan))
        await assistant.ends(run_id)
        cancelled = await assistant("cancel_run", run_id=run_id, reason="enough")
        assert (status_of(cancelled), cancelled["run"]["reason"]) == ("CANCELLED", "enough")
        other = [plan[0], {"id": "b", "type": "echo", "input": 2, "depends_on": ["a"]}]
        checked = await assistant("fork_run", run_id=run_id, plan=other, check_only=True)
        assert "created" not in checked
        assert (checked["kept_task_ids"], checked["pending_task_ids"]) == (["a"], ["b"])
        fork = await assistant("fork_run", run_id=run_id, plan=other)
        assert fork["run"]["spec"]["parent_run_id"] == run_id
        assert status_of(await assistant.ends(id_of(fork))) == "SUCCEEDED"


async def test_watch_ends_with_its_time_and_goes_on_from_there(connection: Connecting) -> None:
    async with connection as assistant:
        plan = [{"id": "a", "type": "slow"}]
        run_id = id_of(await assistant("start_run", plan=plan))
        seen = await assistant("watch_run", run_id=run_id, seconds=1)
        later = await assistant("watch_run", run_id=run_id, after=seen["after"], seconds=1)
        assert (status_of(later), later["events"]) == ("RUNNING", [])
        assert later["after"] == seen["after"]
        await assistant("cancel_run", run_id=run_id)


async def test_answers_about_a_large_run_are_bounded_and_say_so(connection: Connecting) -> None:
    async with connection as assistant:
        plan = [
            {"id": f"t{n}", "type": "echo", "input": "x" * 1_000, "title": "y" * 500}
            for n in range(120)
        ]
        run_id = id_of(await assistant("start_run", plan=plan, goal="z" * 5_000))
        seen = await assistant("watch_run", run_id=run_id)
        assert len(seen["events"]) <= 50
        assert status_of(await assistant.ends(run_id)) == "SUCCEEDED"
        shown = await assistant("show_run", run_id=run_id)
        assert (len(shown["tasks"]), shown["more_tasks"]) == (50, True)
        assert re.search(r"\[cut: 20,000 of 1\d\d,\d\d\d characters\]$", shown["result"])


async def test_what_is_wrong_is_said_in_a_sentence(connection: Connecting) -> None:
    async with connection as assistant:
        assert "no run" in await assistant.refused("show_run", run_id="nobody")
        run_id = id_of(await assistant("start_run", plan=[{"id": "a", "type": "slow"}]))
        assert "has no task 'x'" in await assistant.refused("show_run", run_id=run_id, task_id="x")
        assert "waits for no answer" in await assistant.refused(
            "answer_question", run_id=run_id, answer=1
        )
        circle = [{"id": "a", "depends_on": ["a"]}]
        assert "plan" in await assistant.refused("start_run", plan=circle)
        steered = {"goal": "x", "reflect_on": ["note"]}
        refusal = await assistant.refused("start_run", **steered, plan=[{"id": "a"}])
        assert "reflect_on" in refusal
        await assistant("start_run", **steered, queue="nobody", request_id="steered")
        refusal = await assistant.refused(
            "start_run", goal="x", queue="nobody", request_id="steered"
        )
        assert "request" in refusal
        assert "a task has no such field" in await assistant.refused(
            "start_run", plan=[{"id": "a", "after": []}]
        )
        assert "seconds" in await assistant.refused("watch_run", run_id=run_id, seconds=3_600)
        await assistant("cancel_run", run_id=run_id)


# --- HTTP ---

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


async def status(url: str, **headers: str) -> int:
    async with httpx2.AsyncClient() as http:
        return (await http.post(url, json=PING, headers={**ACCEPT, **headers})).status_code


async def test_call_without_a_token_is_refused(url: str) -> None:
    assert await status(url) == 401
    assert await status(url, Authorization="Basic eDp5") == 401
    assert await status(url, Authorization="Bearer") == 401


async def test_token_that_the_server_does_not_know_is_the_callers_fault(url: str) -> None:
    async with by_http(url, "made-up") as assistant:
        assert "does not know the token" in await assistant.refused("list_runs")


async def test_call_may_do_what_its_own_token_may(url: str) -> None:
    async with by_http(url, READER) as assistant:
        await assistant("list_runs")
        assert "may not do this" in await assistant.refused("start_run", goal="greet")


async def test_hosts_and_origins_of_others_are_refused(url: str, served: Served) -> None:
    token = f"Bearer {served.token}"
    assert await status(url, Authorization=token) == 200
    assert await status(url, Authorization=token, Host="evil.example") == 421
    assert await status(url, Authorization=token, Host="127.0.0.1.evil.example:80") == 421
    assert await status(url, Authorization=token, Origin="https://evil.example") == 403
    assert await status(url, Authorization=token, Origin="http://localhost:3000") == 200


async def test_named_hosts_and_origins_are_let_in(served: Served) -> None:
    named = ("--allow-host", "box.example", "--allow-origin", "https://app.example")
    token = f"Bearer {served.token}"
    with listening(served.terminal, *named) as url:
        assert await status(url, Authorization=token, Host="box.example:80") == 200
        assert await status(url, Authorization=token, Origin="https://app.example") == 200
        assert await status(url, Authorization=token, Origin="https://app.example.evil") == 403


async def test_tls_is_spoken_with_the_certificate_that_is_given(
    served: Served, tmp_path: Path
) -> None:
    made = served.terminal("certs", str(tmp_path))
    assert made.code == 0, made.err
    files = ("--http-cert", f"{tmp_path}/server.pem", "--http-key", f"{tmp_path}/server-key.pem")
    with listening(served.terminal, *files) as url:
        assert url.startswith("https://")
        headers = {"Authorization": f"Bearer {served.token}"}
        context = ssl.create_default_context(cafile=f"{tmp_path}/ca.pem")
        async with (
            httpx2.AsyncClient(headers=headers, verify=context) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            await Assistant(client)("list_runs", limit=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--http", "0.0.0.0:0"), "clear text"),
        (("--http", "192.0.2.7:0"), "clear text"),
        (("--http", "here"), "is no HOST:PORT"),
        (("--http", "0", "--http-cert", "a.pem"), "go together"),
        (("--http", "0.0.0.0:0", "--http-cert", "a.pem", "--http-key", "b.pem"), "--allow-host"),
        (("--http", "0", "--http-cert", "a.pem", "--http-key", "b.pem"), "can't be used"),
        (("--target", "stepwell.example:7878"), "is not on this machine"),
        (("--http", "0", "--target", "stepwell.example:7878"), "is not on this machine"),
    ],
)
def test_command_refuses_what_would_not_be_safe(
    served: Served, arguments: tuple[str, ...], said: str
) -> None:
    answer = served.terminal.apart("mcp", *arguments)
    assert answer.code == 2, answer
    assert said in answer.err
    assert "Traceback" not in answer.err


async def test_server_that_is_down_is_said_to_be_so(served: Served) -> None:
    nobody = Terminal(served.terminal.folder, **served.terminal.variables)
    nobody.variables["STEPWELL_TARGET"] = "127.0.0.1:1"
    async with by_stdio(nobody) as assistant:
        assert "no server answers at 127.0.0.1:1" in await assistant.refused("list_runs")


def test_interrupted_it_ends_in_order(served: Served) -> None:
    process = served.terminal.spawn("mcp", "--http", "0")
    read_until(process.stdout, "listens on")
    answer = end(process, signal.SIGINT)
    assert (answer.code, answer.out) == (0, "stopped\n"), answer


def test_answers_by_http_on_a_kept_connection_wait_for_no_acknowledgement() -> None:
    with bound(Listen("127.0.0.1", 0)) as taken, socket.create_connection(taken.getsockname()):
        accepted, _ = taken.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
