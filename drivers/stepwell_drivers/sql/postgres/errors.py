"""Maps Postgres' errors to the port's, while the store runs and while it is opened.

A server's message is passed on only for classes whose messages hold no values. Details (`Key
(run_id)=(…) already exists`) and asyncpg's messages about arguments are never shown.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator

from asyncpg.exceptions import (
    ClientConfigurationError,
    InterfaceError,
    InternalClientError,
    TargetServerAttributeNotMatched,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StepwellError,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from stepwell_drivers.sql.error_class import Trouble

BUSY = "STORE_BUSY"
READ_ONLY = "STORE_READ_ONLY"
_CHARS_MAX = 200

_TRANSIENT = frozenset({"40001", "40P01"})
_LOST = ("08", "57P", "58", "XX", "25P03", "25P04", "40003")
"""Error classes that leave open whether a COMMIT was done. Any other error means that it was not."""
_ENDS_STATEMENT = ("58", "XX")
"""Classes among these that are certain if they end the statement and not the connection."""
_WORDS_HAVE_NO_VALUES = ("08", "25", "28", "3D", "3F", "40", "53", "55", "57", "58", "XX", "42501")
_READ_ONLY_WORDS = (
    "the server takes no writes (a standby, or a primary that handed over); name the primary, or"
    " several hosts of which the one that takes writes is used (?host=A:5432&host=B:5432)"
)
_POOLER_WORDS = (
    "there is a pooler between that keeps no session; write ?pooler=transaction in the store's URL"
)


def trouble_of(error: BaseException, *, committing: bool = False) -> Trouble:
    """Classify an error; `committing`: it came from COMMIT, which may have been done.

    A fatal error ends only the connection, because the server knows what is on disk.
    """
    if isinstance(error, StepwellError):
        return Trouble(error)
    state = sqlstate_of(error)
    broken = _breaks_connection(state, error)
    if state is None:
        return Trouble(_without_state(error, committing=committing), fatal=broken)
    if committing and state.startswith(_LOST) and not _was_rolled_back(state, error):
        return Trouble(_unknown(f"{_said(error)} ({state})"), fatal=broken)
    if state in _TRANSIENT:
        words = f"another transaction was in the way ({state}), and again when tried again"
        return Trouble(StoreUnavailable(words, reason=BUSY), retry=True)
    return Trouble(_of_state(state, error), fatal=broken)


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE, also of an error that was wrapped several times."""
    for one in _causes(error):
        state = getattr(one, "sqlstate", None)
        if isinstance(state, str) and len(state) == 5:
            return state
    return None


def _was_rolled_back(state: str, error: BaseException) -> bool:
    """Return whether the server reports that only the statement failed."""
    severities = {getattr(one, "severity_en", None) for one in _causes(error)}
    return state.startswith(_ENDS_STATEMENT) and "ERROR" in severities


def _breaks_connection(state: str | None, error: BaseException) -> bool:
    """Return whether the error's connection must be closed.

    True also if the server still answers but refuses writes, because it will refuse them later,
    too.
    """
    if state is None:
        return _find(error, UnicodeError, OverflowError, PoolTimeoutError) is None
    return state.startswith(("08", "25006", "25P03", "25P04", "57P", "XX"))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and the errors that it wraps, the outermost first, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting.append(one.orig if isinstance(one, DBAPIError) else None)
        waiting.append(one.__cause__)


def _find(error: BaseException, *kinds: type[BaseException]) -> BaseException | None:
    return next((one for one in _causes(error) if isinstance(one, kinds)), None)


def _said(error: BaseException) -> str:
    """Return the server's message, from the error with the SQLSTATE."""
    for one in _causes(error):
        if getattr(one, "sqlstate", None) and not isinstance(one, DBAPIError):
            words = getattr(one, "message", None) or (one.args[0] if one.args else "")
            # SQLAlchemy's wrapper begins with the class's name: `<class '…'>: words`.
            return " ".join(str(words).rpartition(">: ")[2].split())[:_CHARS_MAX]
    return type(error).__name__


# --- while the store runs ---


def _unknown(why: str) -> OutcomeUnknown:
    return OutcomeUnknown(f"the connection was lost while it committed: {why}")


def _without_state(error: BaseException, *, committing: bool) -> StepwellError:
    """Classify an error that the server did not send: from the network, from asyncpg, or about a value."""
    if _find(error, UnicodeError, OverflowError) is not None:
        return _not_storable(type(error).__name__)
    if _find(error, PoolTimeoutError) is not None:
        words = "all connections to the database are in use; raise pool_size in the store's URL"
        return StoreUnavailable(words, reason=BUSY)
    if committing:
        return _unknown(_kind(error))
    if _find(error, TargetServerAttributeNotMatched) is not None:
        return StoreUnavailable(_READ_ONLY_WORDS, reason=READ_ONLY)
    if _find(error, OSError, InterfaceError, InternalClientError, asyncio.CancelledError):
        return StoreUnavailable(f"the database can't be reached: {_kind(error)}")
    # The message of any other error may hold values.
    return StoreUnavailable(f"the store failed: {_kind(error)}")


def _kind(error: BaseException) -> str:
    """Return the message of an error without SQLSTATE, if it holds no value."""
    found = _find(error, OSError)
    if found is not None:
        return (found.strerror if isinstance(found, OSError) else None) or type(found).__name__
    closed = _find(error, InterfaceError)
    return str(closed).partition("\n")[0][:_CHARS_MAX] if closed else type(error).__name__


def _not_storable(why: str) -> InvalidArgument:
    return InvalidArgument(f"a value can't be stored: {why}", reason="NOT_STORABLE")


def _of_state(state: str, error: BaseException) -> StepwellError:
    """Classify an error by its SQLSTATE; nothing was done."""
    said = f"{_said(error)} ({state})" if state.startswith(_WORDS_HAVE_NO_VALUES) else state
    if state == "53100":
        return StoreFull(
            "the database's disk is full; nothing was done, and work goes on when there is space"
        )
    if state.startswith("23"):
        return InvalidArgument(
            f"a row contradicts the stored ones ({_constraint(error)})", reason="CONTRADICTION"
        )
    if state.startswith(("22", "54")):
        return _not_storable(state)
    return StoreUnavailable(_words(state, said), reason=_REASONS.get(state))


_REASONS = {"55P03": BUSY, "57014": BUSY, "25006": READ_ONLY, "53300": BUSY}


def _words(state: str, said: str) -> str:
    """Return a message that says what happened and, if an operator can help, what to do."""
    match state:
        case "55P03":
            return (
                "another transaction holds the rows for too long; look for one that is idle in a"
                f" transaction in pg_stat_activity ({state})"
            )
        case "57014":
            return f"a statement took longer than statement_timeout_ms ({state})"
        case "25006":
            return f"{_READ_ONLY_WORDS} ({state})"
        case "53300":
            return (
                f"the server has no connection left: {said}; raise its max_connections, or lower"
                " pool_size in the store's URL"
            )
        case "26000" | "42P05":
            return f"a prepared statement got lost ({state}): {_POOLER_WORDS}"
        case "42P01" | "42703" | "3F000":
            return f"the store's tables were changed or removed while it ran ({state})"
        case "42501":
            return f"the user may not do this: {said}; grant it what the schema's owner has"
        case _:
            return f"the database refused: {said}"


def _constraint(error: BaseException) -> str:
    for one in _causes(error):
        name = getattr(one, "constraint_name", None)
        if name:
            return str(name)
    return sqlstate_of(error) or ""


# --- while it is opened ---


def refusal_of(error: BaseException, shown: str) -> StoreError:
    """Return the port's error for a failure at opening; `shown` is the URL for people.

    StoreRefused needs a change by somebody; StoreUnavailable may pass in a moment.
    """
    if isinstance(error, StoreError):
        return error
    state = sqlstate_of(error)
    if state is None:
        return _unreachable(error, shown)
    said = _said(error)
    todo = _TODO.get(state)
    if todo is None and "startup parameter" in said:
        todo = _POOLER_WORDS
    if todo is not None:
        # The server's message is left out if messages of its class may hold values.
        known = f"{said} ({state})" if state.startswith(_WORDS_HAVE_NO_VALUES) else state
        return StoreRefused(f"{shown} can't be opened: {known}; {todo}")
    found = trouble_of(error).error
    words = f"{shown} can't be opened: {found.message}"
    if isinstance(found, StoreFull):
        return StoreFull(words)
    if isinstance(found, StoreUnavailable) and not state.startswith(("0A", "22", "42", "XX")):
        return StoreUnavailable(words, reason=found.reason)
    return StoreRefused(words)


_CREDENTIALS = (
    "check the user and the password: in the URL, a passfile, or PGPASSWORD, and who may enter by"
    " pg_hba.conf"
)
_GRANTS = (
    "grant it, or have the schema's owner run `stepwell migrate` and start with ?migrate=false; see"
    " docs/operating.md"
)
_ABSENT = (
    "run `stepwell migrate --store URL` as a user who may create tables, or start without"
    " ?migrate=false"
)
_TODO = {
    "28P01": _CREDENTIALS,
    "28000": _CREDENTIALS,
    "3D000": "make the database first (createdb), or name another one in the URL",
    "42501": _GRANTS,
    "42P01": _ABSENT,
    "3F000": _ABSENT,
    "26000": _POOLER_WORDS,
    "42P05": _POOLER_WORDS,
    "25006": "name the primary: a store writes",
}


def _unreachable(error: BaseException, shown: str) -> StoreError:
    """Return the port's error for a server that could not be reached."""
    if _find(error, ssl.SSLCertVerificationError) is not None:
        return StoreRefused(
            f"{shown} shows a certificate that can't be trusted: name its authority with"
            " sslrootcert=FILE, and the host as the certificate names it"
        )
    refused = _find(error, ConnectionError)
    if refused is not None and "rejected SSL upgrade" in str(refused):
        return StoreRefused(
            f"{shown} offers no TLS; switch it on there, or write ?sslmode=disable if you trust the"
            " network between"
        )
    if _find(error, ssl.SSLError) is not None:
        return StoreRefused(
            f"{shown} could not agree on TLS with this program (1.2 or newer, and the certificate"
            " that the server may want: sslcert, sslkey)"
        )
    if _find(error, ClientConfigurationError) is not None:
        return StoreRefused(f"{shown} can't be opened: one of libpq's variables (PG…) is malformed")
    if _find(error, TargetServerAttributeNotMatched) is not None:
        return StoreUnavailable(
            f"none of the hosts of {shown} takes writes: all are standbys, or a fail-over is under"
            " way; name the primary too",
            reason=READ_ONLY,
        )
    if _find(error, socket.gaierror) is not None:
        return StoreUnavailable(f"{shown}: the host's name is not known; check it in the URL")
    if _find(error, TimeoutError) is not None:
        return StoreUnavailable(
            f"{shown} didn't answer in time; check host and port, and what lies between"
        )
    if _find(error, OSError, InterfaceError, InternalClientError) is not None:
        return StoreUnavailable(
            f"nothing answers at {shown} ({_kind(error)}); check that the server runs, and host and"
            " port in the URL"
        )
    return StoreUnavailable(f"{shown} can't be opened: {type(error).__name__}")
