"""Converts values to columns and back: JSON, payloads, sessions, and the empty ones that most rows have."""

from __future__ import annotations

from typing import Any

import msgspec

from stepwell.core.records.model import Failure, Losses, Payload, Previous, Session, Usage

Values = tuple[Any, ...]
"""A row as it goes to the driver."""

_encode = msgspec.json.Encoder().encode
_failure = msgspec.json.Decoder(Failure).decode
_usage = msgspec.json.Decoder(Usage).decode
_losses = msgspec.json.Decoder(Losses).decode
_previous = msgspec.json.Decoder(Previous).decode

_NO_FAILURE = Failure()
_NO_USAGE = Usage()
_NO_LOSSES = Losses()
_NO_SESSION = Session()
_NO_PREVIOUS = Previous()


def to_json(value: object) -> str:
    """Return a value as JSON text."""
    return _encode(value).decode()


def bytes_of(payload: Payload | None) -> tuple[str | None, bytes | None]:
    """Return media type and bytes; both None: there is no payload."""
    return (None, None) if payload is None else (payload.media_type, payload.data)


def payload_of(media_type: str | None, data: bytes | None) -> Payload | None:
    """Return the payload that `bytes_of` split."""
    if media_type is None or data is None:
        return None
    return Payload(data=data, media_type=media_type)


def session_of(backend: str, session_id: str) -> Session:
    """Return a session; most are empty."""
    if not backend and not session_id:
        return _NO_SESSION
    return Session(backend=backend, session_id=session_id)


def failure_of(text: str) -> Failure:
    """Return a failure; most are empty."""
    return _NO_FAILURE if text == "{}" else _failure(text)


def usage_of(text: str) -> Usage:
    """Return a usage; most rows have none yet."""
    return _NO_USAGE if text == "{}" else _usage(text)


def previous_of(text: str) -> Previous:
    """Return what earlier attempts left; most left nothing."""
    return _NO_PREVIOUS if text == "{}" else _previous(text)


def losses_json(losses: Losses) -> str:
    """Return losses as JSON; nearly always there are none."""
    return "{}" if losses == _NO_LOSSES else to_json(losses)


def losses_of(text: str) -> Losses:
    """Return losses."""
    return _NO_LOSSES if text == "{}" else _losses(text)
