"""The views `runs`, `tasks`, `events`, `journal`, `attempts` and `log_lines`, for people and other programs to query.

The tables are internal and may change from version to version. The views keep these names, types
and meanings:

- `id` is a UUID (text on SQLite) and never changes. A run's `id` is its own id if that is a UUID,
  otherwise one that was derived at its creation. It is also derived if another run's id begins with
  the same 20 digits: two tenants may use the same id, and a program may count up the ends of its
  ids.
- The `id` of a task or event is its run's with another number in the last twelve digits. It is
  unique among tasks and among events; a task and an event may have the same.
- A column `…_id` that refers to another view holds its `id`: `tasks.run_id` and `events.run_id` a
  run's, `events.task_id` a task's (NULL: the event is about no task).
- The ids that clients and the tables use are text: `runs.run_id` and `tasks.task_id` in their own
  views, `run_name` and `task_name` in other views.
- All views have `run_key`, the run's number. Lookups by it, by a run's `id`, and of a task by
  `run_key` and `task_id` use an index. The `id` of a task or event is not indexed.
- `status` is in lower case, by `RUN_WORDS` and `TASK_WORDS`.
- Entries of `journal` are numbered by `number` in the order of writing. `mark` is in lower case, too.
- `attempts` has a row for each execution of a step, `log_lines` one for each log entry. `flow_index` is the place of
  the step's task in its plan, from 0 (NULL: the step is no task's), `cycle` the iteration, and `concept` the task's
  type, or else the kind of step.
- `input_params` is a run's input if it is JSON; `payload` is an event's changes of rows.

The other columns are fields of the records, which are in the JSON bodies of the tables. A body
omits fields with their default, which the view then shows. Stored events have short names
(`events.SHORT`), and the views use the names of the records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepwell.core.records.events import SHORT
from stepwell.core.records.states import RunStatus, TaskStatus

RUN_WORDS = {status: status.lower() for status in RunStatus}
"""The words of `runs.status`."""
TASK_WORDS = {status: status.lower() for status in TaskStatus} | {TaskStatus.READY: "pending"}
"""The words of `tasks.status`."""

# Each `<kind place default>` is replaced by a database's expression (`_WORDS`). An outer join is
# dropped if a query uses none of its columns, and becomes an inner join if a query compares one.
RUNS = """
CREATE VIEW runs AS
SELECT
  r.uuid AS id, r.pipeline_id, lower(r.status) AS status, s.input_params, r.executor_id, r.tenant_id,
  r.run_id, r.run_key,
  <text s.spec.goal> AS goal,
  r.queue,
  <json s.spec.labels> AS labels,
  s.priority, r.phase,
  <number r.state.iteration 1> AS iteration,
  <number r.state.plan_revision> AS plan_revision,
  r.version, r.blocked_on,
  <text r.state.pause_reason NONE> AS pause_reason,
  <text r.state.finish_reason NONE> AS finish_reason,
  <text r.state.reason> AS reason,
  <json r.state.failure> AS failure,
  <json r.state.counts> AS counts,
  <json r.state.usage> AS usage,
  <json r.state.budget> AS budget,
  r.parent_run_id,
  <text r.state.result_id> AS result_id,
  <text r.state.actor> AS actor,
  <text r.state.on_behalf_of> AS on_behalf_of,
  <number r.state.created_us> AS created_us,
  <number r.state.started_us> AS started_us,
  r.ended_us
FROM run_rows AS r
LEFT JOIN run_specs AS s ON s.run_key = r.run_key
"""
TASKS = """
CREATE VIEW tasks AS
SELECT
  <uuid s.number> AS id,
  r.uuid AS run_id,
  <text s.spec.type> AS type,
  CASE t.status WHEN 'READY' THEN 'pending' ELSE coalesce(lower(t.status), 'pending') END AS status,
  coalesce(
    nullif(<text s.spec.idempotency_key>, ''),
    r.run_id || '/task:' || s.task_id || '@' || s.revision
  ) AS idempotency_key,
  r.tenant_id, s.task_id, r.run_id AS run_name, s.run_key,
  <text s.spec.title> AS title,
  <text s.spec.role> AS role,
  <text s.spec.prompt> AS prompt,
  s.revision,
  <number t.state.attempts> AS attempts,
  <json s.spec.depends_on []> AS depends_on,
  <json s.spec.retry> AS retry,
  <text s.spec.effect IDEMPOTENT> AS effect,
  <text s.spec.on_failure FAIL_RUN> AS on_failure,
  <json t.state.failure> AS failure,
  <text t.state.result_id> AS result_id,
  <text t.state.result_run_id> AS result_run_id,
  <text t.state.deduplicated_from> AS deduplicated_from,
  coalesce(t.version, s.version) AS version,
  <number t.state.started_us> AS started_us,
  <number t.state.ended_us> AS ended_us
FROM task_specs AS s
LEFT JOIN run_rows AS r ON r.run_key = s.run_key
LEFT JOIN task_rows AS t ON t.run_key = s.run_key AND t.task_id = s.task_id
"""
EVENTS = """
CREATE VIEW events AS
SELECT
  <uuid e.number> AS id,
  r.uuid AS run_id,
  (
    SELECT <uuid s.number> FROM task_specs AS s
    WHERE s.run_key = e.run_key AND s.task_id = <text e.event.task_id>
  ) AS task_id,
  <text e.event.type> AS type,
  <payload> AS payload,
  e.tenant_id, e.number, r.run_id AS run_name,
  <text e.event.task_id> AS task_name,
  e.run_key, e.version,
  <number e.event.time_us> AS time_us,
  <text e.event.execution_id> AS execution_id,
  <text e.event.question_id> AS question_id,
  <text e.event.message> AS message,
  <text e.event.actor> AS actor,
  <text e.event.on_behalf_of> AS on_behalf_of,
  <number e.event.plan_revision> AS plan_revision
FROM (<events>) AS e
LEFT JOIN run_rows AS r ON r.run_key = e.run_key
"""
JOURNAL = """
CREATE VIEW journal AS
SELECT
  r.uuid AS run_id, j.journal,
  <text j.body.name> AS name,
  <text j.body.key> AS key,
  lower(<text j.body.mark END>) AS mark,
  <number j.body.took_ms> AS took_ms,
  coalesce(length(j.value), 0) AS size,
  j.value, j.generation, r.tenant_id, r.run_id AS run_name, j.run_key,
  j.seq AS number,
  coalesce(j.execution_id, '') AS execution_id,
  <text j.body.effect IDEMPOTENT> AS effect,
  <text j.body.arguments> AS arguments,
  <json j.body.failure> AS failure,
  <json j.body.usage> AS usage,
  j.version, j.written_us,
  coalesce(j.until_us, 0) AS until_us
FROM journal_entries AS j
LEFT JOIN run_rows AS r ON r.run_key = j.run_key
"""
ATTEMPTS = """
CREATE VIEW attempts AS
SELECT
  r.uuid AS run_id, e.execution_id,
  s.position AS flow_index,
  <number e.body.iteration 1> AS cycle,
  lower(e.status) AS status,
  coalesce(nullif(<text e.body.type>, ''), lower(<text e.body.kind>)) AS concept,
  <number e.body.offered_us> AS time_us,
  <number e.body.leased_us> AS leased_us,
  <number e.body.ended_us> AS ended_us,
  lower(<text e.body.kind>) AS kind,
  e.task_id,
  <number e.body.attempt 1> AS attempt,
  <text e.body.worker_id> AS worker_id,
  <json e.body.failure> AS failure,
  <json e.body.usage> AS usage,
  r.tenant_id, r.run_id AS run_name, e.run_key, e.version,
  e.seq AS number
FROM executions AS e
LEFT JOIN run_rows AS r ON r.run_key = e.run_key
LEFT JOIN task_specs AS s ON s.run_key = e.run_key AND s.task_id = e.task_id
  AND s.position <> 2147483647
"""
LOG_LINES = """
CREATE VIEW log_lines AS
SELECT
  r.uuid AS run_id, l.execution_id,
  s.position AS flow_index,
  <number e.body.iteration 1> AS cycle,
  lower(e.status) AS status,
  coalesce(nullif(<text e.body.type>, ''), lower(<text e.body.kind>)) AS concept,
  l.appended_us AS time_us,
  <number l.body.written_us> AS written_us,
  lower(l.kind) AS kind,
  <text l.body.level INFO> AS level,
  <text l.body.text> AS text,
  e.task_id, r.tenant_id, r.run_id AS run_name, l.run_key,
  l.seq AS number
FROM logs AS l
LEFT JOIN run_rows AS r ON r.run_key = l.run_key
LEFT JOIN executions AS e ON e.run_key = l.run_key AND e.execution_id = l.execution_id
LEFT JOIN task_specs AS s ON s.run_key = e.run_key AND s.task_id = e.task_id
  AND s.position <> 2147483647
"""
VIEWS = (RUNS, TASKS, EVENTS, JOURNAL, ATTEMPTS, LOG_LINES)

_OWN = (
    *("type", "time_us", "task_id", "execution_id", "question_id", "message", "actor"),
    *("on_behalf_of", "plan_revision"),
)
"""The fields of an event that have columns in the view; the others are in its payload."""


def _in_full(event: str) -> str:
    """Return an event's text with full field names. No quote within a value is followed by a colon."""
    for name, short in SHORT.items():
        event = f"""replace({event}, '"{short}":', '"{name}":')"""
    return event


_WORDS: Mapping[str, Mapping[str, str]] = {
    "sqlite": {
        "text": "coalesce(json_extract({body}, '$.{name}'), '{default}')",
        "number": "coalesce(json_extract({body}, '$.{name}'), {default})",
        "json": "coalesce(json_extract({body}, '$.{name}'), '{default}')",
        "uuid": "substr(r.uuid, 1, 24) || printf('%012x', {body}.{name} & 281474976710655)",
        "events": "SELECT c.run_key, c.tenant_id, c.version,"
        " c.last_event + (j.key + 1 - json_array_length(c.events)) AS number, j.value AS event"
        " FROM commits AS c, json_each(c.events) AS j",
        "payload": f"json_remove({_in_full('e.event')}, "
        + ", ".join(f"'$.{one}'" for one in _OWN)
        + ")",
    },
    "postgresql": {
        "text": "coalesce({body} ->> '{name}', '{default}')",
        "number": "coalesce(CAST({body} ->> '{name}' AS bigint), {default})",
        "json": "coalesce(CAST({body} -> '{name}' AS jsonb), '{default}')",
        "uuid": "CAST(left(CAST(r.uuid AS text), 24)"
        " || lpad(to_hex({body}.{name} & 281474976710655), 12, '0') AS uuid)",
        "events": "SELECT c.run_key, c.tenant_id, c.version,"
        " c.last_event + (j.place - json_array_length(c.events)) AS number, j.event"
        " FROM commits AS c, json_array_elements(c.events) WITH ORDINALITY AS j(event, place)",
        "payload": f"CAST({_in_full('CAST(e.event AS text)')} AS jsonb) - ARRAY["
        + ", ".join(f"'{one}'" for one in _OWN)
        + "]",
    },
}
_DEFAULTS = {"text": "", "number": "0", "json": "{}"}
_place = re.compile(r"<(\w+)(?: ([\w.]+)\.(\w+))?(?: ([^>]+))?>")


def statements(dialect: str) -> tuple[str, ...]:
    """Return the statements that create the views, for `postgresql` or `sqlite`."""

    def said(place: re.Match[str]) -> str:
        kind, body, name, default = place.groups()
        name = SHORT.get(name, name) if body == "e.event" else name
        default = default or _DEFAULTS.get(kind, "")
        return _WORDS[dialect][kind].format(body=body, name=name, default=default)

    return tuple(_place.sub(said, view).strip() for view in VIEWS)
