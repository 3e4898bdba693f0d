"""The loop in the caller's own process: no server, no network, the same durability.

    from stepwell.embedded import Orchestrator

    orchestrator = Orchestrator("count the words", agent, store="sqlite:///runs.db")
    result = await orchestrator.run()
    print(result.value)

    # After a crash, in a new process:
    orchestrator = await Orchestrator.resume(run_id, agent, store="sqlite:///runs.db")
    result = await orchestrator.run()

A Worker can serve the same agent, and a server keeps the same runs: a run that starts here can be
read, resumed and watched by `stepwell serve --store` on the same URL, and vice versa.

One process at a time executes a run. Messages go to the standard library's loggers `stepwell`,
`stepwell_drivers` and `stepwell_client`, which the program may set up. One line is printed instead
of a traceback where Ctrl-C ends the program, or an unhandled mistake in its arguments does.
"""

from __future__ import annotations

import logging

from stepwell.core.records.errors import RunNotFound
from stepwell.embedded.driver_stores import MemoryStore, SQLiteStore
from stepwell.embedded.orchestrator import Orchestrator
from stepwell.embedded.protocols import ContextStore, RunStore, TaskStore
from stepwell.embedded.registry import Registry
from stepwell.embedded.result import RunCancelled, RunFailed, RunResult, TaskResult
from stepwell.embedded.thread_calls import thread, threads

# A worker's program prints failures of its agent if it has set up no logging; an embedded run
# raises them instead.
logging.getLogger("stepwell_client.agent.execution").addHandler(logging.NullHandler())

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
    "thread",
    "threads",
]
