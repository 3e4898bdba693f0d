"""Rows of other runs that a claim must not walk over, in SQL that Postgres and SQLite both know."""

from __future__ import annotations

PARKED = """
INSERT INTO run_rows (tenant_id, run_id, uuid)
SELECT 'acme', 'parked-' || at, {uuid} FROM {rows} AS at;
INSERT INTO executions (run_key, execution_id, task_id, tenant_id, kind, status, queue, type, role, pin,
  priority, available_us)
SELECT run_key, 'x', 'x', CASE at % 5 WHEN 3 THEN 'elsewhere' ELSE 'acme' END,
  CASE at % 5 WHEN 1 THEN 'REFLECT' ELSE 'TASK' END, 'READY',
  CASE at % 5 WHEN 2 THEN 'other' ELSE 'default' END,
  CASE at % 10 WHEN 0 THEN 'plea' ELSE '' END, CASE at % 10 WHEN 5 THEN 'lawyer' ELSE 'coder' END,
  CASE at % 15 WHEN 4 THEN '=9' ELSE '' END, 9,
  CASE at % 15 WHEN 9 THEN 9000000000000000000 WHEN 14 THEN 9000000000000000000 ELSE 1 END
FROM {rows} AS at JOIN run_rows ON tenant_id = 'acme' AND run_id = 'parked-' || at;
INSERT INTO executions (run_key, execution_id, task_id, tenant_id, status, token, worker_id,
  deadline_us, limit_us)
SELECT run_key, 'y', 'y', 'acme', CASE at % 2 WHEN 1 THEN 'LEASED' ELSE 'UNKNOWN_OUTCOME' END, 't', 'worker-2',
  CASE at % 2 WHEN 1 THEN 9000000000000000000 ELSE 1 END, 0
FROM {rows} AS at JOIN run_rows ON tenant_id = 'acme' AND run_id = 'parked-' || at;
INSERT INTO timers (run_key, name, due_us)
SELECT run_key, 'x', 9000000000000000000 FROM {rows} AS at
JOIN run_rows ON tenant_id = 'acme' AND run_id = 'parked-' || at;
"""
"""Runs that wait for another type, role, version, kind, queue or tenant, or for later.

{rows}: a set of their numbers; {uuid}: draws a UUID.
"""
OVERDUE = """
INSERT INTO run_rows (tenant_id, run_id, uuid)
SELECT 'acme', 'overdue-' || at, {uuid} FROM {rows} AS at;
INSERT INTO executions (run_key, execution_id, tenant_id, status, token, deadline_us, limit_us)
SELECT run_key, 'x', 'acme', 'LEASED', 't', at, 0 FROM {rows} AS at
JOIN run_rows ON tenant_id = 'acme' AND run_id = 'overdue-' || at;
INSERT INTO timers (run_key, name, due_us)
SELECT run_key, 'x', at FROM {rows} AS at
JOIN run_rows ON tenant_id = 'acme' AND run_id = 'overdue-' || at;
"""
