"""A server over each kind of store."""

from __future__ import annotations

from tests.service.capabilities.conftest import served

__all__ = ["served"]
