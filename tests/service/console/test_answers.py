"""POST /answers/TOKEN on the console's port: plain statuses for callers without a client or a credential."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from stepwell.console import answers
from stepwell.core.records import limits
from stepwell_client.v1 import orchestrator_pb2 as opb
from tests.service.conftest import ME, World
from tests.service.console.conftest import Console, new_console
from tests.service.console.http import Http
from tests.service.token_questions import ask_by_token

JSON = {"content-type": "application/json"}
SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})


async def post(
    console: Console, token: str, body: bytes = b"1", headers: dict[str, str] | None = None
) -> httpx.Response:
    """Answer without a credential."""
    return await console.http.client.post(
        f"/answers/{token}", content=body, headers=JSON if headers is None else headers
    )


async def test_answer_is_posted_once_without_a_credential(console: Console) -> None:
    linked = await ask_by_token(console.client, schema=SCHEMA)
    wrong = await post(console, linked.token, b'{"n": "one"}')
    assert wrong.status_code == 400
    assert wrong.json()["reason"] == "ANSWER_INVALID"
    assert [one["field"] for one in wrong.json()["fields"]] == ["answer.n"]
    broken = await post(console, linked.token, b"{")
    assert (broken.status_code, broken.json()["fields"][0]["field"]) == (400, "answer")
    empty = await post(console, linked.token, b"")
    assert empty.status_code == 400

    first = await post(console, linked.token, b'{"n": 1}')
    assert (first.status_code, first.json()) == (200, {"answered": True})
    assert first.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in first.headers
    again = await post(console, linked.token, b' {"n":1}')
    assert (again.status_code, again.json()) == (200, {"answered": True})
    other = await post(console, linked.token, b'{"n": 2}')
    assert (other.status_code, other.json()["reason"]) == (409, "QUESTION_ANSWERED")


async def test_wrong_tokens_are_not_found_and_look_the_same(console: Console) -> None:
    linked = await ask_by_token(console.client)
    tokens = ["nothing", "stwa_AAAA", linked.token[:-4], linked.token + "/x", "x" * 5_000, "%00"]
    said = {(one.status_code, one.content) for one in [await post(console, t) for t in tokens]}
    assert len(said) == 1
    ((code, content),) = said
    assert (code, json.loads(content)["reason"]) == (404, "TOKEN_NOT_FOUND")
    assert (await post(console, "")).status_code == 404


async def test_too_large_an_answer_is_413(console: Console) -> None:
    linked = await ask_by_token(console.client)
    large = json.dumps("x" * limits.RECEIVE_BYTES_MAX).encode()
    refused = await post(console, linked.token, large)
    assert (refused.status_code, refused.json()["reason"]) == (413, "MESSAGE_TOO_LARGE")
    over = await post(console, linked.token, json.dumps("x" * limits.ANSWER_BYTES_MAX).encode())
    assert over.status_code == 400


@pytest.mark.parametrize(
    ("method", "headers", "code"),
    [
        ("GET", JSON, 405),
        ("OPTIONS", JSON, 405),
        ("POST", {"content-type": "application/x-www-form-urlencoded"}, 415),
        ("POST", {}, 415),
        ("POST", {**JSON, "origin": "https://elsewhere.example"}, 403),
        ("POST", {**JSON, "host": "elsewhere.example"}, 421),
    ],
)
async def test_other_requests_are_refused_and_answer_nothing(
    console: Console, method: str, headers: dict[str, str], code: int
) -> None:
    linked = await ask_by_token(console.client)
    path = f"/answers/{linked.token}"
    refused = await console.http.client.request(method, path, content=b"1", headers=headers)
    assert refused.status_code == code
    assert linked.token not in refused.text
    assert (await post(console, linked.token)).status_code == 200


async def test_answers_over_the_limit_are_429_with_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWERS_BY_TOKEN_EACH_MAX", 2)
    async with AsyncExitStack() as stack:
        console = await new_console(world, stack)
        linked = await ask_by_token(console.client)
        wrong = linked.token[:-8] + "AAAAAAAA"
        assert [(await post(console, wrong)).status_code for _ in range(2)] == [404, 404]
        refused = await post(console, linked.token)
        assert (refused.status_code, refused.json()["reason"]) == (429, "TOO_MANY_CALLS")
        assert int(refused.headers["retry-after"]) >= 1


async def test_the_call_by_connect_needs_no_credential_either(console: Console) -> None:
    linked = await ask_by_token(console.client)
    nobody = Http(console.http.url)
    request = opb.AnswerByTokenRequest(token=linked.token, answer={"data": b"1"})
    for changed in (True, False):
        (answer,) = await nobody.call("Orchestrator/AnswerByToken", request)
        assert answer == opb.AnswerByTokenResponse(changed=changed)
    await nobody.client.aclose()


async def test_no_line_of_log_has_the_token(
    console: Console, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    linked = await ask_by_token(console.client)
    caplog.set_level(logging.DEBUG)
    # As in a process that logs all that its libraries say, accesses too.
    for name in ("stepwell", "uvicorn", "uvicorn.access"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    assert (await post(console, linked.token, b"{")).status_code == 400
    assert (await post(console, linked.token)).status_code == 200

    async def fails(*_arguments: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(answers, "serve", fails)
    assert (await post(console, linked.token)).status_code == 500
    await asyncio.sleep(0)
    ours = [one for one in caplog.records if not one.name.startswith("http")]
    lines = [f"{one.getMessage()} {vars(one)}" for one in ours]
    assert any("unexpected error" in line for line in lines)
    assert not [line for line in lines if linked.token in line]


async def test_answers_need_no_session_and_take_none(console: Console) -> None:
    linked = await ask_by_token(console.client)
    for credential in (dict(ME), {"authorization": "Bearer nobody"}):
        said = await post(console, linked.token, headers={**JSON, **credential})
        assert said.status_code == 200
