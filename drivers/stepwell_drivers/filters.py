"""The filters of a list of runs, for drivers that compare rows themselves."""

from __future__ import annotations

from stepwell.core.port import RunQuery
from stepwell.core.records.model import Run


def matches(run: Run, query: RunQuery) -> bool:
    """Return whether a run is one of those that the query asks for."""
    spec = run.spec
    return (
        (not query.statuses or run.status in query.statuses)
        and (not query.pipeline_id or spec.pipeline_id == query.pipeline_id)
        and (not query.queue or spec.queue == query.queue)
        and (not query.executor_id or spec.executor_id == query.executor_id)
        and (not query.parent_run_id or spec.parent_run_id == query.parent_run_id)
        and spec.run_id.startswith(query.run_id_prefix)
        and (not query.blocked_on or run.blocked_on in query.blocked_on)
        and query.labels.items() <= spec.labels.items()
    )
