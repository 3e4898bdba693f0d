"""The views `runs`, `tasks` and `events`: what a person or another program asks the database.

The rows are in `run_rows`, `task_rows` and `event_rows`, which are the store's own and may change from
version to version. The views keep these names, types and meanings:

- `id` is a UUID (text on SQLite) and never changes. A run's is its own id where that is a UUID; else one
  that was drawn at its birth. It is drawn, too, where another run in the database has an id that begins
  with the same 20 digits: two tenants may use the same id, and a program may count up its ids at their end.
- A task's and an event's `id` is its run's with a number of its own in the last twelve digits. No two tasks,
  and no two events, have the same one; a task and an event may.
- What is called `…_id` and refers to another view is that one's `id`: `tasks.run_id` and `events.run_id` are
  a run's, `events.task_id` is a task's (NULL: the event is about no task).
- The ids in which clients and the other tables speak are text. They are `runs.run_id` and `tasks.task_id` in
  a thing's own view, `run_name` and `task_name` where another view refers to it.
- `run_key` is the run's number, which all three show. What is looked up by it or by a run's `id` is found by
  index, and so is a task by `run_key` and `task_id`. A task's or an event's own `id` is in no index.
- `status` is in lower case, by `RUN_WORDS` and `TASK_WORDS`.
- `input_params` is a run's input where it is JSON that is small; `payload` is an event's changes of rows.

The other columns are the rows' own, as they are.
"""

from __future__ import annotations

from stepwell.core.records.states import RunStatus, TaskStatus

RUN_WORDS = {status: status.lower() for status in RunStatus}
"""The words of `runs.status`."""
TASK_WORDS = {status: status.lower() for status in TaskStatus} | {TaskStatus.READY: "pending"}
"""The words of `tasks.status`."""

RUNS = """
CREATE VIEW runs AS
SELECT
  uuid AS id, pipeline_id, lower(status) AS status, input_params, executor_id, tenant_id,
  run_id, seq AS run_key,
  goal, queue, labels, priority, phase, iteration, plan_revision, version, blocked_on, pause_reason,
  finish_reason, reason, failure, counts, usage, budget, parent_run_id, result_id, actor, on_behalf_of,
  created_us, started_us, ended_us
FROM run_rows
"""
# An outer join is left out where a query asks for nothing of it, and is an inner one where a query compares.
TASKS = """
CREATE VIEW tasks AS
SELECT
  {task_uuid} AS id, r.uuid AS run_id, t.type,
  CASE t.status WHEN 'READY' THEN 'pending' ELSE lower(t.status) END AS status,
  t.idempotency_key, t.tenant_id,
  t.task_id, t.run_id AS run_name, r.seq AS run_key,
  t.title, t.role, t.prompt, t.revision, t.attempts, t.depends_on, t.retry, t.effect, t.on_failure,
  t.failure, t.result_id, t.result_run_id, t.deduplicated_from, t.version, t.started_us, t.ended_us
FROM task_rows AS t
LEFT JOIN run_rows AS r ON r.tenant_id = t.tenant_id AND r.run_id = t.run_id
"""
EVENTS = """
CREATE VIEW events AS
SELECT
  {event_uuid} AS id, r.uuid AS run_id, {task_uuid} AS task_id, e.type, e.payload, e.tenant_id,
  e.number, e.run_id AS run_name, e.task_id AS task_name, r.seq AS run_key,
  e.version, e.time_us, e.execution_id, e.input_id, e.message, e.actor, e.on_behalf_of,
  e.plan_revision
FROM event_rows AS e
LEFT JOIN run_rows AS r ON r.tenant_id = e.tenant_id AND r.run_id = e.run_id
LEFT JOIN task_rows AS t
  ON t.tenant_id = e.tenant_id AND t.run_id = e.run_id AND t.task_id = e.task_id
"""
_NUMBERED = {
    "postgresql": "CAST(left(CAST(r.uuid AS text), 24)"
    " || lpad(to_hex({number} & 281474976710655), 12, '0') AS uuid)",
    "sqlite": "(substr(r.uuid, 1, 24) || CASE WHEN {number} IS NOT NULL"
    " THEN printf('%012x', {number} & 281474976710655) END)",
}
"""A UUID that begins as the run's; the number is cut to what twelve digits hold."""


def statements(dialect: str) -> tuple[str, ...]:
    """Return the statements that make the views in a database of this name, `postgresql` or `sqlite`."""
    numbered = _NUMBERED[dialect]
    uuids = {
        "task_uuid": numbered.format(number="t.number"),
        "event_uuid": numbered.format(number="e.number"),
    }
    return tuple(view.format(**uuids).strip() for view in (RUNS, TASKS, EVENTS))
