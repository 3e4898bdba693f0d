"""Threads: where a tenant's are kept, and their messages."""

from __future__ import annotations

from stepwell.core.records.aggregates import THREADS, id_of
from stepwell.core.records.model import Payload
from stepwell.core.records.record import Record

THREAD_LABEL = "stepwell.thread"
"""The label by which the runs of a thread are found."""


def threads_of(tenant_id: str) -> str:
    """Return the tenant that a tenant's threads are kept in."""
    return tenant_id + THREADS


def key_of(tenant_id: str, thread_id: str) -> tuple[str, str]:
    """Return the tenant and the id under which a thread of this tenant is kept."""
    return threads_of(tenant_id), id_of(tenant_id, thread_id)


class ThreadMessage(Record, frozen=True, kw_only=True):
    """A message of a thread."""

    number: int
    """1, 2, 3 … without gaps within its thread."""
    role: str
    content: Payload | None = None
    run_id: str = ""
    """The run that appended it. Empty: it came from outside."""
    time_us: int = 0
    """The moment at which the thread took it."""


class ThreadMessageDraft(Record, frozen=True, kw_only=True):
    """A message that is to be appended to a thread."""

    role: str
    content: Payload | None = None


class ThreadWrite(Record, frozen=True, kw_only=True):
    """Messages that are appended to a thread, and the state that is set, by one commit of it."""

    messages: tuple[ThreadMessageDraft, ...] = ()
    """In order."""
    state: Payload | None = None
    """The new state. None: it stays as it is."""
