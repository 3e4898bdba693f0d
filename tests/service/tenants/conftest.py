"""A server over each kind of store, with the tokens of two tenants."""

from __future__ import annotations

from tests.service.capabilities.conftest import served, served_memory

__all__ = ["served", "served_memory"]
