"""The dependencies of the Worker service's calls, from a server or an embedded run."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.core.port import Runtime
from stepwell.engine.executor import Executor


class WorkerDependencies(NamedTuple):
    """The executor that workers work for, and its runtime."""

    executor: Executor
    runtime: Runtime
