"""The application of the console's port: admits requests by Host, Origin, method and path.

A browser that was lured to another site's page sends that page's Origin, and as Host the name that
led it here, so both are checked. No response allows another origin anything, and there are no
cookies.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from stepwell.console import answers, wire
from stepwell.console.calls import PREFIX, Calls, ClientGone, Metadata, Receive
from stepwell.console.pages import Pages
from stepwell.console.pulse import Pulse
from stepwell.console.reply import Response, Scope, Send
from stepwell.console.sessions import Sessions
from stepwell.core.port import Runtime
from stepwell.core.records.errors import InvalidArgument, PermissionDenied, StepwellError
from stepwell.logger import get_logger
from stepwell.rpc import status
from stepwell.rpc.auth import texts_of
from stepwell.rpc.scopes import RUN_READ

log = get_logger(__name__)

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
_LOGIN_PATHS = ("/session", "/session/code")
_LOGIN_BYTES_MAX = 4 * 1024
_PULSE_PATH = "/pulse"
_NO_STORE = ("cache-control", "no-store")


class App:
    """The ASGI application."""

    def __init__(
        self,
        calls: Calls,
        sessions: Sessions,
        runtime: Runtime,
        *,
        hosts: frozenset[str],
        stall_ms: int,
        pulse: Pulse | None = None,
    ) -> None:
        """`hosts` are further names by which it is called, besides those of loopback, in lower case."""
        self._calls = calls
        self._sessions = sessions
        self._runtime = runtime
        self._hosts = LOOPBACK_NAMES | hosts
        self._stall_s = stall_ms / 1_000
        self._pages = Pages()
        self._pulse = pulse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; every error ends in the log and a response."""
        response = Response(scope, send, self._stall_s)
        try:
            await self._serve(scope, receive, response)
        except (ClientGone, asyncio.CancelledError):
            # Work that isn't done when the port closes is cancelled.
            response.cut()
        except Exception:
            error_id = self._runtime.new_id()
            log.exception("unexpected error", path=_shown(scope["path"]), error_id=error_id)
            if response.is_started:
                response.cut()
            else:
                await response.json(500, wire.error_of(status.internal(error_id)))

    async def _serve(self, scope: Scope, receive: Receive, response: Response) -> None:
        pairs = [
            (key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"]
        ]
        headers = dict(pairs)
        host = headers.get("host", "").lower()
        if _name_of(host) not in self._hosts:
            await _refuse(
                response, 421, "nobody is called so here: name it in console.hosts, if it is meant"
            )
            return
        method, path = scope["method"], scope["path"]
        allowed = _methods_of(path)
        if method not in allowed:
            names = ", ".join(allowed)
            await _refuse(response, 405, f"{_shown(path)} takes {names}", ("allow", names))
        elif path == _PULSE_PATH and self._pulse:
            await self._answer_pulse(self._pulse, pairs, response)
        elif method != "POST":
            await self._pages.serve(scope, response)
        elif not _is_own(headers.get("origin"), host):
            await _refuse(response, 403, "a page of another origin may not call")
        elif path.startswith(PREFIX):
            await self._calls.serve(scope, receive, response)
        elif path.startswith(answers.PREFIX):
            await answers.serve(self._calls, path, pairs, receive, response)
        else:
            await self._log_in(path, pairs, receive, response)

    async def _answer_pulse(self, pulse: Pulse, headers: Metadata, response: Response) -> None:
        try:
            principal = self._sessions.authenticate(texts_of(headers))
            if RUN_READ not in principal.scopes:
                raise PermissionDenied(f"this needs the scope {RUN_READ}")
        except StepwellError as error:
            failed = status.answer_of(error)
            await response.json(
                wire.HTTP_STATUSES[failed.code.name], wire.error_of(failed), _NO_STORE
            )
            return
        await response.json(200, pulse.last_hour(principal.tenant_id), _NO_STORE)

    # --- log in -----------------------------------------------------------------------------------

    async def _log_in(
        self, path: str, headers: Metadata, receive: Receive, response: Response
    ) -> None:
        try:
            code = _code_of(await self._calls.bodies.read(receive, _LOGIN_BYTES_MAX))
            answer = self._logged_in(path, texts_of(headers), code)
        except StepwellError as error:
            failed = status.answer_of(error)
            number = wire.HTTP_STATUSES[failed.code.name]
            await response.json(number, wire.error_of(failed), _NO_STORE)
            return
        await response.json(200, answer, _NO_STORE)

    def _logged_in(self, path: str, headers: dict[str, str], code: str) -> dict[str, Any]:
        if path == "/session" and code:
            answer = self._sessions.redeem(code)
            log.info("logged in by a code", subject=answer["subject"])
            return answer
        credential = self._sessions.credential(headers)
        if path == "/session":
            log.info("logged in by a token", subject=credential.principal.subject)
            return self._sessions.begin(credential)
        if code:
            return {"waits": self._sessions.waits(code)}
        return self._sessions.new_code(credential)


def _name_of(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _shown(path: str) -> str:
    """Return a path without the token that it may have."""
    return f"{answers.PREFIX}…" if path.startswith(answers.PREFIX) else path


def _methods_of(path: str) -> tuple[str, ...]:
    """Return the HTTP methods that a path takes."""
    if path.startswith((PREFIX, answers.PREFIX)):
        return ("POST",)
    return ("GET", "HEAD", "POST") if path in _LOGIN_PATHS else ("GET", "HEAD")


def _is_own(origin: str | None, host: str) -> bool:
    """Return whether a request comes from a page of ours, or from no page."""
    return origin is None or origin.lower().partition("://")[2] == host


def _code_of(body: bytes) -> str:
    """Return the code in a body, or "".

    Raises:
        InvalidArgument: the body is no JSON object, or its code no text.
    """
    try:
        found: Any = json.loads(body) if body.strip() else {}
        code: Any = (
            cast("dict[str, Any]", found).get("code", "") if isinstance(found, dict) else None
        )
    except (ValueError, RecursionError):
        code = None
    if not isinstance(code, str):
        raise InvalidArgument('the body is {"code": "…"}, or empty beside a token')
    return code


async def _refuse(response: Response, code: int, text: str, *headers: tuple[str, str]) -> None:
    await response.whole(code, "text/plain; charset=utf-8", f"{text}\n".encode(), *headers)
