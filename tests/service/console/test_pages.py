"""The page, its files and its log-in: what a browser gets, and from whom requests are taken."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell.console import pages
from stepwell_client.v1 import orchestrator_pb2 as opb
from tests.service.conftest import ME, World
from tests.service.console.conftest import Console, new_console
from tests.service.console.http import HttpRefusal, refusal_of

HASHED = "main-A1B2C3D4.js"


@pytest.fixture
async def built(world: World, tmp_path: Path, monkeypatch: Any) -> Any:
    """A console whose page is one of the test's own."""
    folder = tmp_path / "page" / "assets"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>the page</title>")
    (folder / HASHED).write_text("export {}")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "secret.key").write_text("of no type that a page has")
    (folder.parent / "outside.js").write_text("outside")
    monkeypatch.setattr(pages, "files", lambda _package: folder.parent)
    async with AsyncExitStack() as stack:
        yield await new_console(world, stack)


async def test_every_path_of_the_page_is_the_page(built: Console) -> None:
    for path in ("/", "/runs", "/runs/0191-abc?tab=events", "/service", "/session", "/a/../b"):
        answer = await built.http.client.get(path)
        assert (answer.status_code, answer.text.count("the page")) == (200, 1), path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path", ["/", "/runs", "/runs/0191-abc?tab=events", "/runs/a%2Fb/tasks/c", "/compare/a/b"]
)
async def test_page_below_a_path_of_a_proxy_finds_its_files(console: Console, path: str) -> None:
    """A browser resolves the page's references by the address that it has, from which the proxy strips `/tools`."""
    seen = httpx.URL(f"https://shared.test/tools{path}")
    page = await console.http.client.get(path)
    references = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert len(references) == 3
    for one in references:
        full = seen.join(one)
        assert full.path.startswith("/tools/assets/"), one
        answer = await console.http.client.get(full.path.removeprefix("/tools"))
        assert answer.status_code == 200, one


async def test_assets_are_served_by_their_names_and_nothing_else(built: Console) -> None:
    script = await built.http.client.get(f"/assets/{HASHED}")
    assert (script.text, script.headers["content-type"]) == (
        "export {}",
        "text/javascript; charset=utf-8",
    )
    assert "immutable" in script.headers["cache-control"]
    icon = await built.http.client.get("/assets/icon.svg")
    assert (icon.headers["content-type"], icon.headers["cache-control"]) == (
        "image/svg+xml",
        "no-cache",
    )
    for name in ("missing.js", "secret.key", "../outside.js", "%2e%2e/outside.js", ""):
        answer = await built.http.client.get(f"/assets/{name}")
        assert answer.status_code == 404 or "the page" in answer.text, name


async def test_known_file_is_not_sent_again(built: Console) -> None:
    first = await built.http.client.get("/")
    again = await built.http.client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = await built.http.client.head("/")
    assert (head.status_code, head.content) == (200, b"")


async def test_every_response_carries_the_headers_that_guard_a_page(console: Console) -> None:
    client = console.http.client
    path = "/stepwell.v1.Orchestrator/GetServerInfo"
    answers = [
        await client.get("/"),
        await client.get("/assets/none.js"),
        await client.get("/", headers={"host": "evil.test"}),
        await client.post(path, json={}, headers=dict(ME)),
        await client.post(path, json={}),
        await client.post("/session"),
        await client.post("/", json={}),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert not [key for key in answer.headers if key.startswith("access-control")]
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/session", "GET, HEAD, POST"),
        ("DELETE", "/runs", "GET, HEAD"),
        ("POST", "/runs", "GET, HEAD"),
        ("OPTIONS", "/stepwell.v1.Orchestrator/ListRuns", "POST"),
        ("GET", "/stepwell.v1.Orchestrator/ListRuns", "POST"),
    ],
)
async def test_other_methods_are_refused_with_those_that_are_taken(
    console: Console, method: str, path: str, allowed: str
) -> None:
    answer = await console.http.client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", 200),
        ("localhost:9999", 200),
        ("LOCALHOST", 200),
        ("[::1]:80", 200),
        ("console.test", 200),
        ("evil.test", 421),
        ("127.0.0.1.evil.test", 421),
        ("evil.test:80", 421),
        ("", 421),
        ("localhost:80:80", 421),
    ],
)
async def test_host_must_be_a_name_of_the_console(console: Console, host: str, code: int) -> None:
    answer = await console.http.client.get("/", headers={"host": host})
    assert answer.status_code == code


@pytest.mark.parametrize("path", ["/session", "/stepwell.v1.Orchestrator/GetServerInfo"])
async def test_page_of_another_origin_may_not_post(console: Console, path: str) -> None:
    own = console.http.url
    for origin, is_own in (
        (own, True),
        ("http://evil.test", False),
        ("null", False),
        (f"{own}.evil.test", False),
        (own.rpartition(":")[0], False),
        ("", False),
        ("http://[", False),
    ):
        headers = dict(ME) | {"origin": origin}
        answer = await console.http.client.post(path, json={}, headers=headers)
        assert (answer.status_code == 200) is is_own, origin


# --- log in ------------------------------------------------------------------------------------------


async def test_page_logs_in_by_a_code_and_then_calls_by_its_key(console: Console) -> None:
    client = console.http.client
    made = await client.post("/session/code", headers=dict(ME))
    code = made.json()["code"]
    waiting = await client.post("/session/code", json={"code": code}, headers=dict(ME))
    assert waiting.json() == {"waits": True}
    session = await client.post("/session", json={"code": code})
    assert session.headers["cache-control"] == "no-store"
    key = session.json()["key"]
    (info,) = await console.http.call(
        "Orchestrator/GetServerInfo",
        opb.GetServerInfoRequest(),
        metadata=(("authorization", f"Bearer {key}"),),
    )
    assert isinstance(info, opb.GetServerInfoResponse)
    assert (info.subject, info.tenant_id) == ("all", session.json()["tenant"])
    used = await client.post("/session/code", json={"code": code}, headers=dict(ME))
    assert used.json() == {"waits": False}
    again = await client.post("/session", json={"code": code})
    assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")


async def test_key_opens_the_console_and_not_grpc(console: Console) -> None:
    session = await console.http.client.post("/session", headers=dict(ME))
    key = (("authorization", f"Bearer {session.json()['key']}"),)
    await console.http.call("Orchestrator/ListRuns", opb.ListRunsRequest(), metadata=key)
    with pytest.raises(Exception, match="not valid here"):
        await console.client.ask("ListRuns", metadata=key)


async def test_log_in_without_a_token_or_with_a_wrong_body_is_refused(console: Console) -> None:
    client = console.http.client
    assert (await client.post("/session/code")).status_code == 401
    assert (await client.post("/session")).status_code == 401
    assert (await client.post("/session", json={"code": "none"})).status_code == 401
    for body in (b"[]", b"{", b'{"code": 1}', b"[" * 4_000):
        answer = await client.post("/session", content=body, headers=dict(ME))
        assert answer.status_code == 400, body[:20]
    large = await client.post("/session", content=b"x" * 5_000, headers=dict(ME))
    assert refusal_of(large.json()).reason == "MESSAGE_TOO_LARGE"


async def test_session_survives_a_restart_of_the_server(world: World) -> None:
    async with AsyncExitStack() as first:
        before = await new_console(world, first)
        answer = await before.http.client.post("/session", headers=dict(ME))
    key = (("authorization", f"Bearer {answer.json()['key']}"),)
    async with AsyncExitStack() as second:
        after = await new_console(world, second)
        request = opb.GetServerInfoRequest()
        assert await after.http.call("Orchestrator/GetServerInfo", request, metadata=key)
        world.runtime.skip(12 * 3600 * 1_000)
        with pytest.raises(HttpRefusal, match="log in again"):
            await after.http.call("Orchestrator/GetServerInfo", request, metadata=key)
