"""The loop in the caller's own process: no server, no network, the same durability.

    from stepwell.embedded import Orchestrator

    orchestrator = Orchestrator("count the words", agent, store="sqlite:///runs.db")
    result = await orchestrator.run()
    print(result.value)

    # After a crash, in a new process:
    orchestrator = await Orchestrator.resume(run_id, agent, store="sqlite:///runs.db")
    result = await orchestrator.run()

The agent is the one that a Worker serves, and the run is the one that a server keeps: what starts here
can be read, resumed and watched by `stepwell serve --store` on the same URL, and the other way
round. One process at a time runs a run.
"""

from __future__ import annotations

from stepwell.core.records.errors import RunNotFound
from stepwell.embedded.driver_stores import MemoryStore, SQLiteStore
from stepwell.embedded.orchestrator import Orchestrator
from stepwell.embedded.protocols import ContextStore, RunStore, TaskStore
from stepwell.embedded.registry import Registry
from stepwell.embedded.result import RunCancelled, RunFailed, RunResult, TaskResult

__all__ = [
    "ContextStore",
    "MemoryStore",
    "Orchestrator",
    "Registry",
    "RunCancelled",
    "RunFailed",
    "RunNotFound",
    "RunResult",
    "RunStore",
    "SQLiteStore",
    "TaskResult",
    "TaskStore",
]
