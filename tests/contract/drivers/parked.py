"""Rows of other runs that a claim must not walk over, in SQL that Postgres and SQLite both know."""

from __future__ import annotations

PARKED = """
INSERT INTO run_rows (tenant_id, run_id, step_retry)
SELECT 'acme', 'parked-' || at, '{{}}' FROM {rows} AS at;
INSERT INTO executions (tenant_id, run_id, execution_id, task_id, kind, status, queue, type, role, pin,
  priority, available_us)
SELECT CASE at % 5 WHEN 3 THEN 'elsewhere' ELSE 'acme' END, 'parked-' || at, 'x', 'x',
  CASE at % 5 WHEN 1 THEN 'REFLECT' ELSE 'TASK' END, 'READY',
  CASE at % 5 WHEN 2 THEN 'other' ELSE 'default' END,
  CASE at % 10 WHEN 0 THEN 'plea' ELSE '' END, CASE at % 10 WHEN 5 THEN 'lawyer' ELSE 'coder' END,
  CASE at % 15 WHEN 4 THEN '=9' ELSE '' END, 9,
  CASE at % 15 WHEN 9 THEN 9000000000000000000 WHEN 14 THEN 9000000000000000000 ELSE 1 END
FROM {rows} AS at;
INSERT INTO leases (tenant_id, run_id, execution_id, token, armed, deadline_us)
SELECT 'acme', 'parked-' || at, 'x', 't', at % 2, CASE at % 2 WHEN 1 THEN 9000000000000000000 ELSE 1 END
FROM {rows} AS at;
INSERT INTO timers (run_key, name, due_us)
SELECT seq, 'x', 9000000000000000000 FROM {rows} AS at
JOIN run_rows ON tenant_id = 'acme' AND run_id = 'parked-' || at;
"""
"""Runs that wait for another type, role, version, kind, queue or tenant, or for later; {rows}: a set of their numbers."""
OVERDUE = """
INSERT INTO run_rows (tenant_id, run_id, step_retry)
SELECT 'acme', 'overdue-' || at, '{{}}' FROM {rows} AS at;
INSERT INTO leases (tenant_id, run_id, execution_id, token, armed, deadline_us)
SELECT 'acme', 'overdue-' || at, 'x', 't', 1, at FROM {rows} AS at;
INSERT INTO timers (run_key, name, due_us)
SELECT seq, 'x', at FROM {rows} AS at
JOIN run_rows ON tenant_id = 'acme' AND run_id = 'overdue-' || at;
"""
