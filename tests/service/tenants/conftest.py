"""A server over memory, with the tokens of two tenants."""

from __future__ import annotations

from tests.service.capabilities.conftest import served

__all__ = ["served"]
