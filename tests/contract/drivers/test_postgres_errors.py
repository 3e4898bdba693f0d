"""Postgres' errors are mapped to the store's, however they are wrapped."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import asyncpg
import pytest
from asyncpg import exceptions as pg
from sqlalchemy.dialects.postgresql import asyncpg as dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StepwellError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from stepwell_drivers.sql.postgres.errors import refusal_of, trouble_of

SECRET = "hunter2hunter2"
SHOWN = "postgresql://ann@db:5432/loops"


def server_error(state: str, words: str = "words", severity: str = "") -> BaseException:
    """As asyncpg makes it of the server's message."""
    return pg.PostgresError.new(
        {
            "C": state,
            "V": severity,
            "M": words,
            "D": f"Key (x)=({SECRET}) already exists.",
            "n": "runs_pkey",
        }
    )


def wrapped(error: BaseException) -> BaseException:
    """As SQLAlchemy's asyncpg dialect passes it on."""
    dbapi = dialect.AsyncAdapt_asyncpg_dbapi(asyncpg)
    kind = next(
        made for of, made in dbapi._asyncpg_error_translate.items() if isinstance(error, of)
    )
    orig = kind(f"{type(error)}: {error.args[0]}", error)
    orig.__cause__ = error
    made = DBAPIError.instance(f"INSERT '{SECRET}'", {"a": SECRET}, orig, dbapi.Error)
    assert isinstance(made, DBAPIError)
    return made


def no_values(error: StepwellError) -> StepwellError:
    assert SECRET not in f"{error} {error!r} {error.message}"
    assert error.message
    return error


RETRIED = frozenset({"40001", "40P01"})
UNKNOWN = frozenset(
    {"40003", "57P01", "57P02", "57P03", "08003", "08006", "25P03", "58030", "XX000", "XX001"}
)
"""After a COMMIT these leave open whether it was done."""
ENDING = frozenset(
    {"57P01", "57P02", "57P03", "08003", "08006", "25006", "25P03", "XX000", "XX001"}
)
"""These end the connection."""


@pytest.mark.parametrize("wrap", [wrapped, lambda error: error], ids=["sqlalchemy", "bare"])
@pytest.mark.parametrize(
    ("state", "kind", "reason"),
    [
        ("40001", StoreUnavailable, "STORE_BUSY"),
        ("40P01", StoreUnavailable, "STORE_BUSY"),
        ("40003", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("53100", StoreFull, "STORE_FULL"),
        ("53200", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("53300", StoreUnavailable, "STORE_BUSY"),
        ("55P03", StoreUnavailable, "STORE_BUSY"),
        ("57014", StoreUnavailable, "STORE_BUSY"),
        ("57P01", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("57P02", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("57P03", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("08003", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("08006", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("25006", StoreUnavailable, "STORE_READ_ONLY"),
        ("25P03", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("26000", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("42P01", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("58030", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("22021", InvalidArgument, "NOT_STORABLE"),
        ("22P05", InvalidArgument, "NOT_STORABLE"),
        ("54000", InvalidArgument, "NOT_STORABLE"),
        ("23505", InvalidArgument, "CONTRADICTION"),
        ("23503", InvalidArgument, "CONTRADICTION"),
        ("XX000", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("XX001", StoreUnavailable, "STORE_UNAVAILABLE"),
        ("ZZ999", StoreUnavailable, "STORE_UNAVAILABLE"),
    ],
)
def test_a_servers_error_while_the_store_runs(
    state: str,
    kind: type[StepwellError],
    reason: str,
    wrap: Callable[[BaseException], BaseException],
) -> None:
    trouble = trouble_of(wrap(server_error(state)))

    assert type(trouble.error) is kind
    assert no_values(trouble.error).reason == reason
    assert trouble.retry == (state in RETRIED)
    assert trouble.fatal == (state in ENDING)
    committing = trouble_of(wrap(server_error(state)), committing=True).error
    assert isinstance(committing, OutcomeUnknown) == (state in UNKNOWN)


@pytest.mark.parametrize("state", ["58030", "XX000"])
@pytest.mark.parametrize(
    ("severity", "kind"), [("ERROR", StoreUnavailable), ("FATAL", OutcomeUnknown)]
)
def test_an_error_that_ends_only_its_statement_says_that_nothing_was_committed(
    state: str, severity: str, kind: type[StepwellError]
) -> None:
    error = server_error(state, severity=severity)

    assert type(trouble_of(error, committing=True).error) is kind


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(104, "Connection reset by peer"),
        BrokenPipeError(32, "Broken pipe"),
        TimeoutError(),
        pg.InterfaceError("cannot perform operation: connection is closed"),
        pg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        pg.InternalClientError("unexpected"),
        asyncio.CancelledError(),
        RuntimeError(f"what is {SECRET}?"),
    ],
)
def test_a_lost_connection(error: BaseException) -> None:
    during = trouble_of(error)
    committing = trouble_of(error, committing=True)

    assert type(no_values(during.error)) is StoreUnavailable
    assert type(no_values(committing.error)) is OutcomeUnknown
    assert during.fatal
    assert committing.fatal


def test_a_value_that_asyncpg_can_not_encode() -> None:
    error = pg.DataError(f"invalid input for query argument $1: '{SECRET}\\ud800'")
    trouble = trouble_of(wrapped(error))

    assert no_values(trouble.error).reason == "NOT_STORABLE"
    assert not trouble.fatal
    assert trouble_of(UnicodeEncodeError("utf-8", SECRET, 0, 1, "")).error.reason == "NOT_STORABLE"


def test_a_full_pool_is_no_broken_connection() -> None:
    trouble = trouble_of(PoolTimeoutError("QueuePool limit"))

    assert "pool_size" in trouble.error.message
    assert not trouble.fatal


def test_the_ports_own_errors_pass() -> None:
    error = InvalidArgument("no")

    assert trouble_of(error).error is error


# --- at the start ---


@pytest.mark.parametrize(
    ("state", "words", "todo"),
    [
        ("28P01", "password authentication failed for user", "pg_hba.conf"),
        ("28000", 'role "ann" does not exist', "check the user"),
        ("3D000", 'database "loops" does not exist', "createdb"),
        ("42501", "permission denied for database loops", "migrate=false"),
        ("42P01", 'relation "x" does not exist', "stepwell migrate"),
        ("3F000", 'schema "x" does not exist', "stepwell migrate"),
        ("08P01", "unsupported startup parameter: lock_timeout", "?pooler=transaction"),
        ("26000", "prepared statement x does not exist", "?pooler=transaction"),
    ],
)
def test_configuration_errors_are_refused(state: str, words: str, todo: str) -> None:
    error = refusal_of(wrapped(server_error(state, words)), SHOWN)

    assert isinstance(no_values(error), StoreRefused)
    assert SHOWN in error.message
    assert todo in error.message


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed"), "nothing answers"),
        (FileNotFoundError(2, "No such file or directory"), "nothing answers"),
        (socket.gaierror(-2, "Name or service not known"), "name is not known"),
        (TimeoutError(), "didn't answer in time"),
        (server_error("57P03", "the database system is starting up"), "starting up"),
        (server_error("53300", "sorry, too many clients already"), "max_connections"),
        (server_error("53100", "could not extend file"), "disk is full"),
        (pg.TargetServerAttributeNotMatched("none"), "takes writes"),
    ],
)
def test_transient_errors_are_unavailable(error: BaseException, words: str) -> None:
    found = refusal_of(error, SHOWN)

    assert isinstance(no_values(found), StoreUnavailable)
    assert words in found.message
    assert SHOWN in found.message


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError('PostgreSQL server at "h" rejected SSL upgrade'), "?sslmode=disable"),
        (ssl.SSLCertVerificationError(1, "self-signed"), "sslrootcert"),
        (ssl.SSLError(1, "TLSV1_ALERT"), "sslcert"),
        (pg.ClientConfigurationError("bad"), "variables"),
    ],
)
def test_encryption_errors_are_refused(error: BaseException, words: str) -> None:
    found = refusal_of(error, SHOWN)

    assert isinstance(found, StoreRefused)
    assert words in found.message
