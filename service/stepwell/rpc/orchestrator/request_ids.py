"""Request ids: the id of the run that a request starts, and the fingerprint of its meaning."""

from __future__ import annotations

import hashlib
import json
import uuid

from msgspec import Struct

from stepwell.core.records import canonical

_RUNS = uuid.UUID("8f2c5d1e-6b0a-5c41-9f57-7a3d54e0c911").bytes
"""The namespace of run ids, which are UUIDs of version 5. It must never change, because repeated
requests find their runs by it.
"""


def run_id_of(tenant_id: str, request_id: str) -> str:
    """Return the id of the run that this request starts, the same on every replica and driver."""
    name = json.dumps([tenant_id, request_id]).encode()
    # Formatted by hand, because uuid.UUID takes several times as long.
    digest = hashlib.sha1(_RUNS + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def fingerprint_of(command: Struct) -> str:
    """Return the fingerprint of a command, equal for two requests with the same meaning: a SHA-256, in hex.

    A record has the default instead of an absent field, so writing out a default changes nothing.
    """
    digest = hashlib.sha256(type(command).__name__.encode())
    digest.update(canonical.bytes_of(command))
    return digest.hexdigest()
