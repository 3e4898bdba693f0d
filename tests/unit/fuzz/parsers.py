"""Every parser of what strangers write: how an input for it is made, and how it says no."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

from google.protobuf.message import DecodeError, Message

from stepwell.core.port import Principal
from stepwell.core.records.errors import InvalidArgument, StepwellError
from stepwell.core.records.graph import Graph, fingerprint, violations_of
from stepwell.core.records.model import TaskSpec
from stepwell.rpc.auth import Credential, TokenAuthenticator
from stepwell.rpc.orchestrator import pages
from stepwell.schemas import json_text, patterns
from stepwell.schemas.checks import STEPS_AT_ONCE_MAX
from stepwell.schemas.effort import Effort, TooLong
from stepwell.schemas.guarded import Schema, SchemaError
from stepwell.store.opener import mask_url
from stepwell.wire import validate
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_drivers.redis import cursors as redis_cursors
from stepwell_drivers.redis import url as redis_url
from stepwell_drivers.remote import url as remote_url
from stepwell_drivers.sql import pages as sql_pages
from stepwell_drivers.sql.postgres import url as postgres_url
from stepwell_drivers.sql.sqlite import url as sqlite_url
from stepwell_testkit.runtime import ManualRuntime
from tests.support.methods import SERVED, STORE
from tests.unit.fuzz.hostile import Hostile

SECRET = "s3cr3t"


class Parser(NamedTuple):
    """One parser."""

    make: Callable[[Random], Any]
    parse: Callable[[Any], object]
    says_no: tuple[type[Exception], ...] = (StepwellError,)
    """Errors that it may raise; anything else is a crash."""


# --- messages ----------------------------------------------------------------------------------------

_METHODS = tuple({**SERVED, **STORE}.values())


def _wire(rnd: Random) -> tuple[type[Message], bytes]:
    hostile = Hostile(rnd)
    message = hostile.message(rnd.choice(_METHODS).input_type)
    raw = message.SerializeToString()
    return type(message), hostile.damaged(raw) if rnd.random() < 0.5 else raw


def _check(given: tuple[type[Message], bytes]) -> None:
    kind, raw = given
    validate.check(kind.FromString(raw))


# --- plans -------------------------------------------------------------------------------------------


def _plan(rnd: Random) -> list[TaskSpec]:
    """A graph that is sound, or one with holes, cycles, twins and odd names."""
    hostile = Hostile(rnd)
    names = [f"t{index}" for index in range(rnd.choice((0, 1, 3, 8, 40)))]
    sound = rnd.random() < 0.3
    names += [] if sound else [hostile.text() for _ in range(rnd.randint(0, 2))]
    return [
        TaskSpec(
            task_id=name,
            depends_on=tuple(set(rnd.choices(names[: at if sound else None] or ["t0"], k=at % 4))),
            idempotency_key=hostile.text() if rnd.random() < 0.2 and not sound else "",
            prompt=hostile.text(),
        )
        for at, name in enumerate(names)
    ]


def _graph(tasks: list[TaskSpec]) -> None:
    if violations_of(tasks, {"t0", "t1", "t2"}.__contains__):
        raise InvalidArgument("an unsound plan")
    fingerprint(tasks)
    graph = Graph({task.task_id: task for task in tasks})
    for task in tasks:
        assert task.task_id not in graph.downstream(task.task_id), "a cycle was let through"


# --- cursors -----------------------------------------------------------------------------------------

_TOKENS = tuple(
    pages.token_of("tenant", opb.ListTasksRequest(run_id="r"), cursor)
    for cursor in ("7", "[1,2]", "a.b.c")
)
_CURSORS = (
    sql_pages.cursor_of((1, "a")),
    redis_cursors.cursor_of("tasks", (1, 2)),
    redis_cursors.feed_cursor("store", [1, 2, 3]),
    *(f"store.7.{number}" for number in (0, 2**63, 10**40)),
)


def _read_token(token: str) -> None:
    pages.cursor_of("tenant", opb.ListTasksRequest(run_id="r", page_token=token))
    assert token in ("", *_TOKENS), "a token that nobody gave out was taken"


def _read_cursor(cursor: str) -> None:
    readers: tuple[Callable[[], object], ...] = (
        lambda: sql_pages.place_of(cursor, tuple[int, str], (0, "")),
        lambda: redis_cursors.place_of(cursor, "tasks", tuple[int, int], (0, 0)),
        lambda: redis_cursors.feed_places(cursor, "store", 3),
    )
    refused = 0
    for read in readers:
        try:
            read()
        except StepwellError:
            refused += 1
    if refused == len(readers):
        raise InvalidArgument("none of them gave it out")


# --- URLs --------------------------------------------------------------------------------------------

_PARSERS: dict[str, Callable[[str], object]] = {
    "postgresql": postgres_url.parse,
    "redis": redis_url.parse,
    "redis+cluster": redis_url.parse,
    "sqlite": sqlite_url.parse,
    "grpc": remote_url.parse,
}
_PARAMETERS = ("sslmode", "host", "port", "pool_size", "wait", "timeout_ms", "durability", "pooler")
_PARAMETERS += ("listen_url", "prefix", "token_file", "partitions", "synchronous", "x")


def _url(rnd: Random) -> str:
    hostile = Hostile(rnd)

    def word() -> str:
        text = hostile.text()[:80]
        return quote(text) if rnd.random() < 0.7 else text

    user = f"u:{SECRET}@" if rnd.random() < 0.5 else ""
    place = rnd.choice(("h", "h:1", "h:99999", "[::1]:5", "", "h:1,h:2", word()))
    pairs = [f"{rnd.choice(_PARAMETERS)}={word()}" for _ in range(rnd.choice((0, 0, 1, 2)))]
    query = "?" + "&".join(pairs) if pairs else ""
    return f"{rnd.choice(tuple(_PARSERS))}://{user}{place}/{word()}{query}"


def _read_url(url: str) -> None:
    assert SECRET not in mask_url(url), "a password was shown"
    try:
        _PARSERS[url.partition("://")[0]](url)
    except StepwellError as error:
        if SECRET in str(error):
            raise AssertionError("a password was shown") from error
        raise


# --- metadata ----------------------------------------------------------------------------------------

_DOOR = TokenAuthenticator(
    [Credential(b"\x00" * 32, Principal("s", "t", frozenset()))], ManualRuntime()
)


def _metadata(rnd: Random) -> dict[str, str]:
    hostile = Hostile(rnd)
    scheme = rnd.choice(("Bearer ", "bearer ", "Basic ", "", "Bearer\t"))
    lone = "\udc80" if rnd.random() < 0.1 else ""
    return {"authorization": scheme + hostile.text() + lone, "x-tenant-id": hostile.text()}


def _enter(metadata: Mapping[str, str]) -> None:
    _DOOR.authenticate(metadata)
    raise AssertionError("somebody without a token was let in")


# --- schemas, patterns and answers -------------------------------------------------------------------

_KEYWORDS = ("type", "pattern", "enum", "items", "properties", "allOf", "anyOf", "not", "$ref")
_KEYWORDS += ("minLength", "maximum", "required", "uniqueItems", "additionalProperties", "const")
_KEYWORDS += ("if", "then", "$defs", "patternProperties", "contains", "dependentSchemas", "$id")


_LEAVES = (0, -1, 1.5, 1e300, 2**70, True, False, None)
_LEAVES += ("string", "object", "array", "integer", "null", "#", "#/properties/a")
_LEAVES += (r"^(a|aa)+$", r"\d{3,}", r"[^\W_]+", r"(x*)*y", r"a{2,1}", "[", r"\p{L}")


def _json(rnd: Random, depth: int = 0) -> Any:
    kind = rnd.randrange(8) if depth < 5 else 0
    text = Hostile(rnd).text()
    if kind < 4:
        return rnd.choice((text[:60], *_LEAVES))
    below = [_json(rnd, depth + 1) for _ in range(rnd.randint(0, 4))]
    if kind == 4:
        return below
    return {rnd.choice(_KEYWORDS) if rnd.random() < 0.8 else text[:20]: one for one in below}


def _schema(rnd: Random) -> tuple[str, bytes]:
    hostile = Hostile(rnd)
    schema, answer = json.dumps(_json(rnd)), json.dumps(_json(rnd)).encode()
    if rnd.random() < 0.2:
        schema = hostile.damaged(schema.encode()).decode("utf-8", "replace")
    return schema, hostile.damaged(answer) if rnd.random() < 0.2 else answer


def _judge(given: tuple[str, bytes]) -> None:
    """Look at a schema, then at an answer by it, as far as both may go on the event loop."""
    schema, answer = given
    effort = Effort(STEPS_AT_ONCE_MAX)
    Schema(json_text.load(schema, effort), effort).faults(
        json_text.load(answer, effort), effort, 20
    )


def _pattern(rnd: Random) -> tuple[str, str]:
    parts = ("a", "(", ")", "*", "+", "?", "|", "[", "]", "^", "$", "\\d", "{2}", "{1,3}", ".", "é")
    return "".join(rnd.choices(parts, k=rnd.randint(0, 14))), "a" * rnd.choice((0, 3, 60))


def _match(given: tuple[str, str]) -> None:
    source, text = given
    found = patterns.matches(source, text, Effort(STEPS_AT_ONCE_MAX))
    try:
        with warnings.catch_warnings():
            # Of what may mean another thing one day, in Python.
            warnings.simplefilter("ignore")
            as_python = re.compile(source)
    except re.error:
        return
    if len(text) <= 3:
        assert found == bool(as_python.search(text)), "another answer than that of re"


PARSERS: Mapping[str, Parser] = {
    "messages": Parser(_wire, _check, (StepwellError, DecodeError)),
    "plans": Parser(_plan, _graph),
    "page tokens": Parser(lambda rnd: Hostile(rnd).like(rnd.choice(_TOKENS)), _read_token),
    "store cursors": Parser(lambda rnd: Hostile(rnd).like(rnd.choice(_CURSORS)), _read_cursor),
    "store URLs": Parser(_url, _read_url),
    "credentials": Parser(_metadata, _enter),
    "schemas and answers": Parser(_schema, _judge, (TooLong, SchemaError, json_text.InvalidJson)),
    "patterns": Parser(_pattern, _match, (patterns.PatternError, TooLong)),
}
"""Parsers by name."""
