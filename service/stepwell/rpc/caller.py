"""The caller of the current RPC."""

from __future__ import annotations

from contextvars import ContextVar

from stepwell.core.port import Principal

_caller: ContextVar[Principal] = ContextVar("caller")


def set_caller(principal: Principal) -> None:
    """Set the caller; called by the gate before anything else in the RPC's task."""
    _caller.set(principal)


def caller() -> Principal:
    """Return the caller. Only within an RPC that needs a credential."""
    return _caller.get()


def tenant() -> str:
    """Return the caller's tenant, which comes only from here."""
    return _caller.get().tenant_id
