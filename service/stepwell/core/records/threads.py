"""The place of threads among runs: a thread is kept as a run is, in a tenant of its own that no caller can have.

So no list, count or claim of a tenant's runs meets its threads, and a list of that tenant is one of threads.
"""

from __future__ import annotations

import hashlib

from stepwell.core.records.model import Payload
from stepwell.core.records.record import Record

TENANT_ENDING = "/threads"
"""The end of the name of a tenant's threads; no tenant of callers is named so."""
THREAD_LABEL = "stepwell.thread"
"""The label by which the runs of a thread are found."""


def threads_of(tenant_id: str) -> str:
    """Return the tenant that a tenant's threads are kept in."""
    return tenant_id + TENANT_ENDING


def is_of_threads(tenant_id: str) -> bool:
    """Return whether a tenant has threads instead of runs."""
    return tenant_id.endswith(TENANT_ENDING)


def runs_of(tenant_id: str) -> str:
    """Return the tenant of the runs of these threads, or the same tenant if it has runs itself."""
    return tenant_id.removesuffix(TENANT_ENDING)


def id_of(tenant_id: str, thread_id: str) -> str:
    """Return the id, a UUID, under which a thread of this tenant is kept."""
    digest = hashlib.sha256(f"{tenant_id}\0{thread_id}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


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
