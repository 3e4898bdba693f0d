"""The place of what is kept as a run is and is none, such as a thread: a tenant of its own that no caller can have.

So no list, count or claim of a tenant's runs meets it, and a list of such a tenant is one of its threads, or its
schedules.
"""

from __future__ import annotations

import hashlib
from typing import Final

THREADS: Final = "/threads"
"""The end of the name of a tenant's threads."""
SCHEDULES: Final = "/schedules"
"""The end of the name of a tenant's schedules."""
TENANT_ENDINGS: Final = (THREADS, SCHEDULES)
"""The ends of such tenants' names; no tenant of callers is named so."""


def is_kept_apart(tenant_id: str) -> bool:
    """Return whether a tenant has something else than runs."""
    return tenant_id.endswith(TENANT_ENDINGS)


def runs_of(tenant_id: str) -> str:
    """Return the tenant of the runs of these threads, or schedules, or the same tenant if it has runs itself."""
    for ending in TENANT_ENDINGS:
        tenant_id = tenant_id.removesuffix(ending)
    return tenant_id


def id_of(tenant_id: str, name: str) -> str:
    """Return the id, a UUID, under which what has this name in this tenant is kept."""
    digest = hashlib.sha256(f"{tenant_id}\0{name}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
