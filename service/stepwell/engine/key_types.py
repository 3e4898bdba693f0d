"""Names of runs, queues and leases: tuples that the engine uses as dictionary keys."""

from __future__ import annotations

RunKey = tuple[str, str]
"""(tenant_id, run_id)."""
QueueKey = tuple[str, str]
"""(tenant_id, queue)."""
LeaseKey = tuple[str, str]
"""(run_id, execution_id), within one tenant."""
