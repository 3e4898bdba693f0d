"""The parts of schema 0006 besides its tables, frozen with it: the clock of Postgres, and the views.

Why each view is as it is stands in `views.py`.
"""

from __future__ import annotations

CLOCK = (
    "CREATE SEQUENCE stepwell_clock_last MINVALUE 0 START 0",
    "CREATE SEQUENCE stepwell_clock_ahead MINVALUE 0 START 0",
    """
    CREATE FUNCTION stepwell_now_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
    DECLARE
      now_us bigint;
      ahead_us bigint;
      last_us bigint;
      keeps boolean := current_setting('transaction_read_only') = 'off';
    BEGIN
      SELECT last_value INTO ahead_us FROM stepwell_clock_ahead;
      SELECT last_value INTO last_us FROM stepwell_clock_last;
      -- After these: a session that is stopped for a while in between has not seen time go back.
      now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ahead_us;
      IF keeps AND now_us >= last_us + 1000000 THEN
        PERFORM setval('stepwell_clock_last', now_us);
      ELSIF keeps AND now_us < last_us - 1000000 THEN
        PERFORM setval('stepwell_clock_ahead', ahead_us + last_us - now_us);
      END IF;
      RETURN greatest(now_us, last_us);
    END $$
    """,
)
"""The store's time goes on from where it was when the server's clock is set back; else all that was stamped
before would have to wait for as long. Sequences, because no transaction holds them: nobody waits for another.
A second is as much as is lost by it, and what two sessions that look at once may be apart."""

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


def views(dialect: str) -> tuple[str, ...]:
    """Return the statements that make the views in a database of this name."""
    numbered = _NUMBERED[dialect]
    task, event = [numbered.format(number=f"{table}.number") for table in "te"]
    return tuple(
        view.format(task_uuid=task, event_uuid=event).strip() for view in (RUNS, TASKS, EVENTS)
    )
