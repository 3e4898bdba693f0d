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
from stepwell_client import (
    CursorOutOfRange,
    DecodeError,
    Misconfigured,
    RunNotFound,
    ServerError,
    decode,
    encode,
    word,
)
from stepwell_client._connect import DEFAULT_TARGET, Connection, is_local
from stepwell_client._runtime import Runtime, full_jitter
from stepwell_client._status import Details, error_of, parse_status
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
def test_what_does_not_fit_is_told_by_its_path(data: bytes, annotation: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(types_pb2.Payload(data=data), annotation)

    assert path in [violation.field for violation in caught.value.violations]


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(types_pb2.Payload(data=data))


def test_all_public_names_are_there() -> None:
    assert all(hasattr(stepwell_client, name) for name in stepwell_client.__all__)


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
def test_what_stays_on_this_machine(target: str, local: bool) -> None:
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
    assert Connection("example.org:1", token="", environ={}).access.metadata == ()


def test_a_token_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="not there"):
        Connection(token_file=tmp_path / "no", environ={})
    with pytest.raises(Misconfigured, match="can't be read"):
        Connection(token_file=tmp_path, environ={})


def test_a_token_minted_later_is_found(tmp_path: Path) -> None:
    access = Connection(environ={"XDG_STATE_HOME": str(tmp_path)}).access
    assert not access.has_token
    (tmp_path / "stepwell").mkdir()
    (tmp_path / "stepwell" / "token").write_text("minted")

    assert access.reload()
    assert not access.reload()
    assert access.metadata == (("authorization", "Bearer minted"),)


# Error details.


def packed(*details: Any) -> bytes:
    status = status_pb2.Status(code=5, message="m")
    for detail in details:
        status.details.add().Pack(detail)
    return status.SerializeToString()


def test_details_are_read_from_the_wire() -> None:
    info = error_details_pb2.ErrorInfo(reason="R", domain="d", metadata={"oldest": "17", "é": "ü"})
    other = error_details_pb2.DebugInfo(detail="x")

    details = parse_status(packed(other, info))

    assert (details.reason, details.metadata) == ("R", {"oldest": "17", "é": "ü"})
    error = error_of(grpc.StatusCode.OUT_OF_RANGE, "gone", details)
    assert isinstance(error, CursorOutOfRange)
    assert error.oldest == 17
    missing = error_of(grpc.StatusCode.NOT_FOUND, "x", Details("RUN_NOT_FOUND"))
    assert isinstance(missing, RunNotFound)
    assert isinstance(missing, ValueError)
    assert isinstance(error_of(grpc.StatusCode.DATA_LOSS, "", Details()), ServerError)


@given(st.binary(max_size=200))
def test_no_details_whatever_they_are_raise(data: bytes) -> None:
    parse_status(data)
    parse_status(status_pb2.Status(details=[any_pb2.Any(value=data)]).SerializeToString())


# Enums.


def test_the_enums_are_those_of_the_protocol() -> None:
    import stepwell_client._enums as module

    for name, mine in vars(module).items():
        if not (isinstance(mine, type) and issubclass(mine, enum.IntEnum)) or name == "IntEnum":
            continue
        descriptor = types_pb2.DESCRIPTOR.enum_types_by_name[name]
        prefix = descriptor.values[0].name.removesuffix("UNSPECIFIED")
        theirs = {value.name.removeprefix(prefix): value.number for value in descriptor.values}
        assert {item.name: item.value for item in mine} == theirs
    assert word(stepwell_client.RunStatus, 5) == "SUCCEEDED"
    assert word(stepwell_client.RunStatus, 99) == "99"


def test_full_jitter_is_anything_up_to_a_cap() -> None:
    class Highest(Runtime):
        def random(self) -> float:
            return 1.0

    waits = [full_jitter(Highest(), n, base=0.1, cap=2.0) for n in (1, 2, 3, 4, 5, 6, 1000)]

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
