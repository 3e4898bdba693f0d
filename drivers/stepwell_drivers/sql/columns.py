"""Converts values to columns and back: JSON, and payloads, most of which are `application/json`."""

from __future__ import annotations

from typing import Any

import msgspec

from stepwell.core.records.model import Payload

Values = tuple[Any, ...]
"""A row as the database driver takes it."""

_encode = msgspec.json.Encoder().encode
_MEDIA_TYPE = Payload().media_type


def to_json(value: object) -> str:
    """Return a value as JSON text."""
    return _encode(value).decode()


def bytes_of(payload: Payload | None) -> tuple[str | None, bytes | None]:
    """Return media type and bytes. Bytes None: there is no payload. Type None: `application/json`."""
    if payload is None:
        return None, None
    return (None if payload.media_type == _MEDIA_TYPE else payload.media_type), payload.data


def payload_of(media_type: str | None, data: bytes | None) -> Payload | None:
    """Return the payload of `bytes_of`'s result."""
    if data is None:
        return None
    return Payload(data=data, media_type=_MEDIA_TYPE if media_type is None else media_type)
