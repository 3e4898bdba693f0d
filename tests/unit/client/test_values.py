"""Payloads, targets, tokens, error details and enums: what needs no server."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import grpc
import pydantic
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

import stepwell_client
from stepwell_client import DEFAULT_TARGET, InvalidRequest, decode, encode
from stepwell_client.errors import (
    CursorOutOfRange,
    DecodeError,
    ForkIncompatible,
    Misconfigured,
    RunNotFound,
    ServerError,
    Violation,
)
from stepwell_client.internal import Backoff, Connection, Runtime, from_rpc_error, is_local
from stepwell_client.v1 import types_pb2


class Colour(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    n: int


@dataclass
class Inner:
    when: datetime.datetime
    colour: Colour


@dataclass
class Outer:
    id: uuid.UUID
    inner: list[Inner]
    model: Model
    where: Path
    pair: tuple[int, str]
    choice: Literal["a", "b"] = "a"
    more: dict[str, Inner] = field(default_factory=dict)


def test_nested_values_come_back_as_they_were() -> None:
    inner = Inner(datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), Colour.RED)
    value = Outer(uuid.UUID(int=7), [inner], Model(n=1), Path("a/b"), (1, "x"), "b", {"k": inner})

    payload = encode(value)

    assert payload is not None
    assert payload.media_type == "application/json"
    assert decode(payload, Outer) == value


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_json_values_come_back_as_they_were(value: Any) -> None:
    assert decode(encode(value)) == value


@given(st.binary())
def test_bytes_come_back_as_they_were(value: bytes) -> None:
    assert decode(encode(value)) == value
    assert decode(encode(value), bytes) == value


def test_half_a_surrogate_pair_is_held_by_an_escape() -> None:
    assert decode(encode({"name": "\udcff"})) == {"name": "\udcff"}


def test_none_is_no_payload_and_a_payload_is_taken_as_it_is() -> None:
    own = types_pb2.Payload(data=b"x", media_type="image/png")

    assert encode(None) is None
    assert decode(None) is None
    assert encode(own) is own
    assert decode(own) == b"x"
    assert decode(types_pb2.Payload(data="é".encode(), media_type="text/plain"), str) == "é"
    assert decode(types_pb2.Payload(data=b"1")) == 1


@pytest.mark.parametrize(
    ("data", "annotation", "path"),
    [
        (b'{"n": "x"}', Model, "$.n"),
        (b'[{"n": 1}, {}]', list[Model], "$[1].n"),
        (b'{"when": "never", "colour": "red"}', Inner, "$.when"),
        (b'{"when": "2026-01-01", "colour": "blue"}', Inner, "$.colour"),
        (b'{"when": "2026-01-01", "colour": "red", "x": 1}', Inner, "$.x"),
        (b"{}", Inner, "$.when"),
        (b"null", int, "$"),
        (b"true", int, "$"),
        (b'"c"', Literal["a", "b"], "$"),
        (b"[1]", tuple[int, str], "$"),
        (b"1.5", int | str, "$"),
    ],
)
def test_unfitting_value_is_reported_by_its_path(data: bytes, annotation: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(types_pb2.Payload(data=data), annotation)

    assert path in [violation.field for violation in caught.value.violations]


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_invalid_json_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(types_pb2.Payload(data=data))


# Targets and tokens.


@pytest.mark.parametrize(
    ("target", "local"),
    [
        ("127.0.0.1:7878", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("unix:/run/x.sock", True),
        ("dns:///localhost:1", True),
        ("ipv4:127.0.0.1:1", True),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", True),
        ("ipv6:[::1]:1,[::1]:2", True),
        ("ipv4:127.0.0.1:1,10.0.0.1:2", False),
        ("127.0.0.1:1,10.0.0.1:2", False),
        ("10.0.0.1:1", False),
        ("127.evil.example:1", False),
        ("localhost.evil.example:1", False),
        ("example.org:443", False),
        ("dns:///example.org:443", False),
    ],
)
def test_local_targets_need_no_tls(target: str, local: bool) -> None:
    assert is_local(target) is local


def test_arguments_go_over_the_environment_and_that_over_the_default_file(tmp_path: Path) -> None:
    default = tmp_path / "stepwell" / "token"
    default.parent.mkdir()
    default.write_text("minted\n")
    other = tmp_path / "other"
    other.write_text("from a file")
    base = {"XDG_STATE_HOME": str(tmp_path)}

    def token(environ: dict[str, str], **given: Any) -> Any:
        return dict(Connection(environ=base | environ, **given).access.metadata).get(
            "authorization"
        )

    assert token({}) == "Bearer minted"
    assert token({"STEPWELL_TOKEN_FILE": str(other)}) == "Bearer from a file"
    assert token({"STEPWELL_TOKEN": "variable"}) == "Bearer variable"
    assert token({"STEPWELL_TOKEN": "variable"}, token="argument") == "Bearer argument"
    assert token({"STEPWELL_TOKEN": "variable"}, token_file=other) == "Bearer from a file"
    assert token({}, token="") is None
    assert token({"XDG_STATE_HOME": str(tmp_path / "nowhere")}) is None
    assert Connection(environ=base).target == DEFAULT_TARGET
    assert Connection(environ=base | {"STEPWELL_TARGET": "unix:/x"}).target == "unix:/x"


def test_a_token_never_travels_in_clear_text_and_never_shows() -> None:
    with pytest.raises(Misconfigured, match="clear text") as caught:
        Connection("example.org:1", token="very-secret", environ={})
    secure = Connection(
        "example.org:1",
        token="very-secret",
        credentials=grpc.ssl_channel_credentials(),
        environ={},
    )

    assert "very-secret" not in str(caught.value) + repr(secure.access) + repr(secure)
    with pytest.raises(Misconfigured, match="clear text"):
        Connection("example.org:1", token="", environ={})


def test_a_token_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="not there"):
        Connection(token_file=tmp_path / "no", environ={})
    with pytest.raises(Misconfigured, match="can't be read"):
        Connection(token_file=tmp_path, environ={})


def test_token_minted_later_is_read(tmp_path: Path) -> None:
    access = Connection(environ={"XDG_STATE_HOME": str(tmp_path)}).access
    assert not access.has_token
    (tmp_path / "stepwell").mkdir()
    (tmp_path / "stepwell" / "token").write_text("minted")

    assert access.reload()
    assert not access.reload()
    assert access.metadata == (("authorization", "Bearer minted"),)


# Error details.


class FailedCall(grpc.RpcError):
    """A failed call, as a stub raises it."""

    def __init__(self, code: grpc.StatusCode, message: str, *trailing: tuple[str, bytes]) -> None:
        self._code = code
        self._message = message
        self._trailing = trailing

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._message

    def trailing_metadata(self) -> Any:
        return self._trailing


def failed(code: grpc.StatusCode, *details: Any) -> FailedCall:
    """A failed call whose trailing metadata holds these details."""
    status = status_pb2.Status(code=5, message="m")
    for detail in details:
        status.details.add().Pack(detail)
    return FailedCall(code, "gone", ("grpc-status-details-bin", status.SerializeToString()))


def test_error_details_are_read_from_the_trailing_metadata() -> None:
    info = error_details_pb2.ErrorInfo(reason="R", domain="d", metadata={"oldest": "17", "é": "ü"})
    other = error_details_pb2.DebugInfo(detail="x")

    error = from_rpc_error(failed(grpc.StatusCode.OUT_OF_RANGE, other, info))

    assert isinstance(error, CursorOutOfRange)
    assert (error.reason, error.oldest, error.message) == ("R", 17, "gone")
    run = error_details_pb2.ErrorInfo(reason="RUN_NOT_FOUND")
    missing = from_rpc_error(failed(grpc.StatusCode.NOT_FOUND, run))
    assert isinstance(missing, RunNotFound)
    assert isinstance(missing, ValueError)
    assert isinstance(from_rpc_error(FailedCall(grpc.StatusCode.DATA_LOSS, "")), ServerError)


def test_violations_are_read_from_both_kinds_of_details() -> None:
    request = error_details_pb2.BadRequest()
    request.field_violations.add(field="goal", description="too long")
    request.field_violations.add(field="queue", description="no name")
    wrong = from_rpc_error(failed(grpc.StatusCode.INVALID_ARGUMENT, request))
    assert isinstance(wrong, InvalidRequest)
    assert wrong.violations == (Violation("goal", "too long"), Violation("queue", "no name"))
    # Each is said once: the message has the first.
    assert str(wrong) == "gone\n  queue: no name"

    fork = error_details_pb2.ErrorInfo(reason="FORK_INCOMPATIBLE")
    state = error_details_pb2.PreconditionFailure()
    state.violations.add(type="EFFECT_REPEATED", subject="charge", description="it ran")
    unfit = from_rpc_error(failed(grpc.StatusCode.FAILED_PRECONDITION, fork, state))
    assert isinstance(unfit, ForkIncompatible)
    assert unfit.violations == (Violation("charge", "EFFECT_REPEATED: it ran"),)


@given(st.binary(max_size=200))
def test_malformed_error_details_are_ignored(data: bytes) -> None:
    any_detail = status_pb2.Status(details=[any_pb2.Any(value=data)]).SerializeToString()
    named = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=data)
    for trailing in (
        data,
        any_detail,
        status_pb2.Status(details=[named]).SerializeToString(),
    ):
        call = FailedCall(grpc.StatusCode.DATA_LOSS, "m", ("grpc-status-details-bin", trailing))
        assert isinstance(from_rpc_error(call), ServerError)


# Enums.


def test_an_enum_prints_as_its_name_and_takes_numbers_that_it_does_not_know() -> None:
    assert stepwell_client.RunStatus(5).name == f"{stepwell_client.RunStatus(5)}" == "SUCCEEDED"
    assert stepwell_client.RunStatus(99).name == "99"


def test_full_jitter_is_anything_up_to_a_cap() -> None:
    class Highest(Runtime):
        def random(self) -> float:
            return 1.0

    waits = [Backoff(0.1, 2.0).seconds(Highest(), n) for n in (1, 2, 3, 4, 5, 6, 1000)]

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
