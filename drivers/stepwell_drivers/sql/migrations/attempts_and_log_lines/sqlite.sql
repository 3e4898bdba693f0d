CREATE VIEW attempts AS
SELECT
  r.uuid AS run_id, e.execution_id,
  s.position AS flow_index,
  coalesce(json_extract(e.body, '$.iteration'), 1) AS cycle,
  lower(e.status) AS status,
  coalesce(nullif(coalesce(json_extract(e.body, '$.type'), ''), ''), lower(coalesce(json_extract(e.body, '$.kind'), ''))) AS concept,
  coalesce(json_extract(e.body, '$.offered_us'), 0) AS time_us,
  coalesce(json_extract(e.body, '$.leased_us'), 0) AS leased_us,
  coalesce(json_extract(e.body, '$.ended_us'), 0) AS ended_us,
  lower(coalesce(json_extract(e.body, '$.kind'), '')) AS kind,
  e.task_id,
  coalesce(json_extract(e.body, '$.attempt'), 1) AS attempt,
  coalesce(json_extract(e.body, '$.worker_id'), '') AS worker_id,
  coalesce(json_extract(e.body, '$.failure'), '{}') AS failure,
  coalesce(json_extract(e.body, '$.usage'), '{}') AS usage,
  r.tenant_id, r.run_id AS run_name, e.run_key, e.version,
  e.seq AS number
FROM executions AS e
LEFT JOIN run_rows AS r ON r.run_key = e.run_key
LEFT JOIN task_specs AS s ON s.run_key = e.run_key AND s.task_id = e.task_id
  AND s.position <> 2147483647;

CREATE VIEW log_lines AS
SELECT
  r.uuid AS run_id, l.execution_id,
  s.position AS flow_index,
  coalesce(json_extract(e.body, '$.iteration'), 1) AS cycle,
  lower(e.status) AS status,
  coalesce(nullif(coalesce(json_extract(e.body, '$.type'), ''), ''), lower(coalesce(json_extract(e.body, '$.kind'), ''))) AS concept,
  l.appended_us AS time_us,
  coalesce(json_extract(l.body, '$.written_us'), 0) AS written_us,
  lower(l.kind) AS kind,
  coalesce(json_extract(l.body, '$.level'), 'INFO') AS level,
  coalesce(json_extract(l.body, '$.text'), '') AS text,
  e.task_id, r.tenant_id, r.run_id AS run_name, l.run_key,
  l.seq AS number
FROM logs AS l
LEFT JOIN run_rows AS r ON r.run_key = l.run_key
LEFT JOIN executions AS e ON e.run_key = l.run_key AND e.execution_id = l.execution_id
LEFT JOIN task_specs AS s ON s.run_key = e.run_key AND s.task_id = e.task_id
  AND s.position <> 2147483647;
