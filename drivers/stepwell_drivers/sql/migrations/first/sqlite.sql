CREATE TABLE run_rows (
  run_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  tenant_id TEXT DEFAULT '' NOT NULL,
  run_id TEXT DEFAULT '' NOT NULL,
  pipeline_id TEXT DEFAULT '' NOT NULL,
  queue TEXT DEFAULT '' NOT NULL,
  executor_id TEXT DEFAULT '' NOT NULL,
  parent_run_id TEXT DEFAULT '' NOT NULL,
  uuid TEXT NOT NULL,
  status TEXT DEFAULT '' NOT NULL,
  phase TEXT DEFAULT '' NOT NULL,
  blocked_on TEXT DEFAULT '' NOT NULL,
  commit_id TEXT DEFAULT '' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  last_event BIGINT DEFAULT '0' NOT NULL,
  ended_us BIGINT DEFAULT '0' NOT NULL,
  state TEXT DEFAULT '{}' NOT NULL,
  UNIQUE (tenant_id, run_id)
);

CREATE INDEX runs_by_birth ON run_rows (tenant_id, run_key);

CREATE INDEX runs_by_status ON run_rows (tenant_id, status, run_key);

CREATE INDEX runs_by_pipeline ON run_rows (tenant_id, pipeline_id, run_key);

CREATE INDEX runs_by_uuid ON run_rows (uuid);

CREATE UNIQUE INDEX runs_by_uuid_start ON run_rows (substr(uuid, 1, 23));

CREATE INDEX runs_by_parent ON run_rows (tenant_id, parent_run_id, run_key) WHERE parent_run_id <> '';

CREATE INDEX runs_ended ON run_rows (status, ended_us, tenant_id, run_id) WHERE (status = 'SUCCEEDED' OR status = 'FAILED' OR status = 'CANCELLED');

CREATE INDEX runs_ended_of_tenant ON run_rows (tenant_id, status, ended_us, run_id) WHERE (status = 'SUCCEEDED' OR status = 'FAILED' OR status = 'CANCELLED');

CREATE INDEX runs_ended_of_pipeline ON run_rows (tenant_id, pipeline_id, status, ended_us, run_id) WHERE (status = 'SUCCEEDED' OR status = 'FAILED' OR status = 'CANCELLED');

CREATE TABLE run_specs (
  run_key INTEGER NOT NULL,
  priority BIGINT DEFAULT '0' NOT NULL,
  spec TEXT DEFAULT '{}' NOT NULL,
  input_params TEXT,
  input_media_type TEXT,
  input BLOB,
  PRIMARY KEY (run_key)
);

CREATE TABLE plans (
  run_key BIGINT NOT NULL,
  revision BIGINT DEFAULT '0' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  task_count BIGINT DEFAULT '0' NOT NULL,
  created_us BIGINT DEFAULT '0' NOT NULL,
  "trigger" TEXT DEFAULT '' NOT NULL,
  "plan" TEXT DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key, revision)
);

CREATE TABLE task_specs (
  run_key BIGINT NOT NULL,
  task_id TEXT DEFAULT '' NOT NULL,
  revision BIGINT DEFAULT '0' NOT NULL,
  position BIGINT DEFAULT '2147483647' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  number BIGINT DEFAULT '0' NOT NULL,
  spec TEXT DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key, task_id)
);

CREATE INDEX tasks_in_order ON task_specs (run_key, revision, position, task_id);

CREATE TABLE task_rows (
  run_key BIGINT NOT NULL,
  task_id TEXT DEFAULT '' NOT NULL,
  revision BIGINT DEFAULT '0' NOT NULL,
  status TEXT DEFAULT '' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  state TEXT DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key, task_id)
);

CREATE TABLE executions (
  seq INTEGER NOT NULL,
  run_key BIGINT NOT NULL,
  execution_id TEXT DEFAULT '' NOT NULL,
  task_id TEXT DEFAULT '' NOT NULL,
  status TEXT DEFAULT '' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  body TEXT DEFAULT '{}' NOT NULL,
  tenant_id TEXT,
  queue TEXT,
  kind TEXT,
  role TEXT,
  type TEXT,
  pin TEXT,
  priority BIGINT,
  available_us BIGINT,
  token TEXT,
  worker_id TEXT,
  instance_id TEXT,
  deadline_us BIGINT,
  limit_us BIGINT,
  session_backend TEXT,
  session_id TEXT,
  progress_media_type TEXT,
  progress BLOB,
  held_until_us BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (seq),
  UNIQUE (run_key, execution_id)
);

CREATE INDEX executions_in_order ON executions (run_key);

CREATE INDEX executions_of_task ON executions (run_key, task_id);

CREATE INDEX executions_open ON executions (run_key) WHERE tenant_id IS NOT NULL;

CREATE INDEX executions_ready ON executions (tenant_id, queue, kind, role, type, pin, priority, available_us) WHERE status = 'READY';

CREATE INDEX executions_delayed ON executions (available_us) WHERE status = 'READY';

CREATE INDEX executions_due ON executions (deadline_us) WHERE status = 'LEASED';

CREATE INDEX executions_of_worker ON executions (tenant_id, worker_id) WHERE worker_id IS NOT NULL;

CREATE TABLE outcomes (
  run_key BIGINT NOT NULL,
  execution_id TEXT DEFAULT '' NOT NULL,
  result_media_type TEXT,
  result BLOB,
  prompt TEXT,
  response TEXT,
  receipt TEXT,
  PRIMARY KEY (run_key, execution_id)
);

CREATE TABLE timers (
  run_key BIGINT NOT NULL,
  name TEXT DEFAULT '' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  due_us BIGINT DEFAULT '0' NOT NULL,
  held_until_us BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (run_key, name)
)
 WITHOUT ROWID;

CREATE INDEX timers_due ON timers (due_us, run_key, name);

CREATE TABLE commits (
  seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  run_key BIGINT NOT NULL,
  tenant_id TEXT DEFAULT '' NOT NULL,
  deleted_run_id TEXT,
  version BIGINT DEFAULT '0' NOT NULL,
  commit_id TEXT DEFAULT '' NOT NULL,
  committed_us BIGINT DEFAULT '0' NOT NULL,
  last_event BIGINT DEFAULT '0' NOT NULL,
  events TEXT DEFAULT '[]' NOT NULL,
  changed TEXT,
  xid BIGINT DEFAULT 0 NOT NULL,
  UNIQUE (run_key, version)
);

CREATE INDEX commits_by_event ON commits (run_key, last_event);

CREATE INDEX commits_of_tenant ON commits (tenant_id);

CREATE TABLE questions (
  seq INTEGER NOT NULL,
  run_key BIGINT NOT NULL,
  question_id TEXT DEFAULT '' NOT NULL,
  status TEXT DEFAULT '' NOT NULL,
  tenant_id TEXT,
  body TEXT DEFAULT '{}' NOT NULL,
  PRIMARY KEY (seq),
  UNIQUE (run_key, question_id)
);

CREATE INDEX questions_in_order ON questions (run_key);

CREATE INDEX questions_open ON questions (run_key) WHERE status = 'OPEN';

CREATE INDEX questions_waiting ON questions (tenant_id) WHERE status = 'OPEN';

CREATE TABLE checkpoints (
  run_key BIGINT NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  cycle BIGINT DEFAULT '0' NOT NULL,
  state TEXT DEFAULT '{}' NOT NULL,
  created_us BIGINT DEFAULT '0' NOT NULL,
  base BLOB,
  PRIMARY KEY (run_key, version)
);

CREATE INDEX checkpoints_based ON checkpoints (run_key, version) WHERE base IS NOT NULL;

CREATE TABLE requests (
  run_key BIGINT NOT NULL,
  committed_version BIGINT DEFAULT '0' NOT NULL,
  body TEXT DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key, committed_version)
)
 WITHOUT ROWID;

CREATE TABLE sessions (
  run_key BIGINT NOT NULL,
  backend TEXT DEFAULT '' NOT NULL,
  session_id TEXT DEFAULT '' NOT NULL,
  task_id TEXT DEFAULT '' NOT NULL,
  execution_id TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (run_key, backend, session_id)
)
 WITHOUT ROWID;

CREATE TABLE messages (
  seq INTEGER NOT NULL,
  run_key BIGINT NOT NULL,
  task_id TEXT DEFAULT '' NOT NULL,
  role TEXT DEFAULT '' NOT NULL,
  body TEXT DEFAULT '{}' NOT NULL,
  PRIMARY KEY (seq)
);

CREATE INDEX messages_in_order ON messages (run_key);

CREATE INDEX messages_of_task ON messages (run_key, task_id);

CREATE TABLE logs (
  seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  run_key BIGINT NOT NULL,
  execution_id TEXT DEFAULT '' NOT NULL,
  kind TEXT DEFAULT '' NOT NULL,
  appended_us BIGINT DEFAULT '0' NOT NULL,
  body TEXT DEFAULT '{}' NOT NULL
);

CREATE INDEX logs_in_order ON logs (run_key);

CREATE INDEX logs_of_execution ON logs (run_key, execution_id);

CREATE TABLE journal_entries (
  seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  run_key BIGINT NOT NULL,
  step BIGINT DEFAULT '0' NOT NULL,
  name BIGINT DEFAULT '0' NOT NULL,
  generation BIGINT DEFAULT '0' NOT NULL,
  at_most_once BIGINT DEFAULT '0' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  written_us BIGINT DEFAULT '0' NOT NULL,
  journal TEXT DEFAULT '' NOT NULL,
  execution_id TEXT,
  until_us BIGINT,
  words BIGINT DEFAULT '0' NOT NULL,
  body TEXT DEFAULT '{}' NOT NULL,
  value_media_type TEXT,
  value BLOB
);

CREATE INDEX journal_by_name ON journal_entries (run_key, step, name);

CREATE TABLE lease_sums (
  run_key BIGINT NOT NULL,
  execution_id TEXT DEFAULT '' NOT NULL,
  token TEXT DEFAULT '' NOT NULL,
  entries BIGINT DEFAULT '0' NOT NULL,
  bytes BIGINT DEFAULT '0' NOT NULL,
  messages BIGINT DEFAULT '0' NOT NULL,
  input_tokens BIGINT DEFAULT '0' NOT NULL,
  output_tokens BIGINT DEFAULT '0' NOT NULL,
  cost_micros BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (run_key, execution_id)
)
 WITHOUT ROWID;

CREATE TABLE reservations (
  tenant_id TEXT DEFAULT '' NOT NULL,
  pipeline_id TEXT DEFAULT '' NOT NULL,
  "key" TEXT DEFAULT '' NOT NULL,
  run_id TEXT DEFAULT '' NOT NULL,
  commit_id TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (tenant_id, pipeline_id, "key")
)
 WITHOUT ROWID;

CREATE INDEX reservations_of_run ON reservations (tenant_id, run_id, pipeline_id, "key");

CREATE TABLE workers (
  tenant_id TEXT DEFAULT '' NOT NULL,
  worker_id TEXT DEFAULT '' NOT NULL,
  instance_id TEXT DEFAULT '' NOT NULL,
  expires_us BIGINT DEFAULT '0' NOT NULL,
  body TEXT DEFAULT '{}' NOT NULL,
  PRIMARY KEY (tenant_id, worker_id, instance_id)
)
 WITHOUT ROWID;

CREATE INDEX workers_by_expiry ON workers (expires_us);

CREATE TABLE tombstones (
  tenant_id TEXT DEFAULT '' NOT NULL,
  run_id TEXT DEFAULT '' NOT NULL,
  run_key BIGINT NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  expires_us BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (tenant_id, run_id)
)
 WITHOUT ROWID;

CREATE INDEX tombstones_by_expiry ON tombstones (expires_us);

CREATE TABLE meta (
  "key" TEXT DEFAULT '' NOT NULL,
  value TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY ("key")
)
 WITHOUT ROWID;

CREATE VIEW runs AS
SELECT
  r.uuid AS id, r.pipeline_id, lower(r.status) AS status, s.input_params, r.executor_id, r.tenant_id,
  r.run_id, r.run_key,
  coalesce(json_extract(s.spec, '$.goal'), '') AS goal,
  r.queue,
  coalesce(json_extract(s.spec, '$.labels'), '{}') AS labels,
  s.priority, r.phase,
  coalesce(json_extract(r.state, '$.iteration'), 1) AS iteration,
  coalesce(json_extract(r.state, '$.plan_revision'), 0) AS plan_revision,
  r.version, r.blocked_on,
  coalesce(json_extract(r.state, '$.pause_reason'), 'NONE') AS pause_reason,
  coalesce(json_extract(r.state, '$.finish_reason'), 'NONE') AS finish_reason,
  coalesce(json_extract(r.state, '$.reason'), '') AS reason,
  coalesce(json_extract(r.state, '$.failure'), '{}') AS failure,
  coalesce(json_extract(r.state, '$.counts'), '{}') AS counts,
  coalesce(json_extract(r.state, '$.usage'), '{}') AS usage,
  coalesce(json_extract(r.state, '$.budget'), '{}') AS budget,
  r.parent_run_id,
  coalesce(json_extract(r.state, '$.result_id'), '') AS result_id,
  coalesce(json_extract(r.state, '$.actor'), '') AS actor,
  coalesce(json_extract(r.state, '$.on_behalf_of'), '') AS on_behalf_of,
  coalesce(json_extract(r.state, '$.created_us'), 0) AS created_us,
  coalesce(json_extract(r.state, '$.started_us'), 0) AS started_us,
  r.ended_us
FROM run_rows AS r
LEFT JOIN run_specs AS s ON s.run_key = r.run_key;

CREATE VIEW tasks AS
SELECT
  substr(r.uuid, 1, 24) || printf('%012x', s.number & 281474976710655) AS id,
  r.uuid AS run_id,
  coalesce(json_extract(s.spec, '$.type'), '') AS type,
  CASE t.status WHEN 'READY' THEN 'pending' ELSE coalesce(lower(t.status), 'pending') END AS status,
  coalesce(
    nullif(coalesce(json_extract(s.spec, '$.idempotency_key'), ''), ''),
    r.run_id || '/task:' || s.task_id || '@' || s.revision
  ) AS idempotency_key,
  r.tenant_id, s.task_id, r.run_id AS run_name, s.run_key,
  coalesce(json_extract(s.spec, '$.title'), '') AS title,
  coalesce(json_extract(s.spec, '$.role'), '') AS role,
  coalesce(json_extract(s.spec, '$.prompt'), '') AS prompt,
  s.revision,
  coalesce(json_extract(t.state, '$.attempts'), 0) AS attempts,
  coalesce(json_extract(s.spec, '$.depends_on'), '[]') AS depends_on,
  coalesce(json_extract(s.spec, '$.retry'), '{}') AS retry,
  coalesce(json_extract(s.spec, '$.effect'), 'IDEMPOTENT') AS effect,
  coalesce(json_extract(s.spec, '$.on_failure'), 'FAIL_RUN') AS on_failure,
  coalesce(json_extract(t.state, '$.failure'), '{}') AS failure,
  coalesce(json_extract(t.state, '$.result_id'), '') AS result_id,
  coalesce(json_extract(t.state, '$.result_run_id'), '') AS result_run_id,
  coalesce(json_extract(t.state, '$.deduplicated_from'), '') AS deduplicated_from,
  coalesce(t.version, s.version) AS version,
  coalesce(json_extract(t.state, '$.started_us'), 0) AS started_us,
  coalesce(json_extract(t.state, '$.ended_us'), 0) AS ended_us
FROM task_specs AS s
LEFT JOIN run_rows AS r ON r.run_key = s.run_key
LEFT JOIN task_rows AS t ON t.run_key = s.run_key AND t.task_id = s.task_id;

CREATE VIEW events AS
SELECT
  substr(r.uuid, 1, 24) || printf('%012x', e.number & 281474976710655) AS id,
  r.uuid AS run_id,
  (
    SELECT substr(r.uuid, 1, 24) || printf('%012x', s.number & 281474976710655) FROM task_specs AS s
    WHERE s.run_key = e.run_key AND s.task_id = coalesce(json_extract(e.event, '$.t'), '')
  ) AS task_id,
  coalesce(json_extract(e.event, '$.y'), '') AS type,
  json_remove(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(e.event, '"y":', '"type":'), '"at":', '"time_us":'), '"t":', '"task_id":'), '"x":', '"execution_id":'), '"T":', '"tasks":'), '"X":', '"executions":'), '"s":', '"status":'), '"k":', '"kind":'), '"i":', '"iteration":'), '"a":', '"attempt":'), '"A":', '"attempts":'), '"g":', '"allowance":'), '"q":', '"queue":'), '"w":', '"worker_id":'), '"r":', '"result_id":'), '"h":', '"has_result":'), '"o":', '"offered_us":'), '"l":', '"leased_us":'), '"b":', '"started_us":'), '"e":', '"ended_us":'), '$.type', '$.time_us', '$.task_id', '$.execution_id', '$.question_id', '$.message', '$.actor', '$.on_behalf_of', '$.plan_revision') AS payload,
  e.tenant_id, e.number, r.run_id AS run_name,
  coalesce(json_extract(e.event, '$.t'), '') AS task_name,
  e.run_key, e.version,
  coalesce(json_extract(e.event, '$.at'), 0) AS time_us,
  coalesce(json_extract(e.event, '$.x'), '') AS execution_id,
  coalesce(json_extract(e.event, '$.question_id'), '') AS question_id,
  coalesce(json_extract(e.event, '$.message'), '') AS message,
  coalesce(json_extract(e.event, '$.actor'), '') AS actor,
  coalesce(json_extract(e.event, '$.on_behalf_of'), '') AS on_behalf_of,
  coalesce(json_extract(e.event, '$.plan_revision'), 0) AS plan_revision
FROM (SELECT c.run_key, c.tenant_id, c.version, c.last_event + (j.key + 1 - json_array_length(c.events)) AS number, j.value AS event FROM commits AS c, json_each(c.events) AS j) AS e
LEFT JOIN run_rows AS r ON r.run_key = e.run_key;

CREATE VIEW journal AS
SELECT
  r.uuid AS run_id, j.journal,
  coalesce(json_extract(j.body, '$.name'), '') AS name,
  coalesce(json_extract(j.body, '$.key'), '') AS key,
  lower(coalesce(json_extract(j.body, '$.mark'), 'END')) AS mark,
  coalesce(json_extract(j.body, '$.took_ms'), 0) AS took_ms,
  coalesce(length(j.value), 0) AS size,
  j.value, j.generation, r.tenant_id, r.run_id AS run_name, j.run_key,
  j.seq AS number,
  coalesce(j.execution_id, '') AS execution_id,
  coalesce(json_extract(j.body, '$.effect'), 'IDEMPOTENT') AS effect,
  coalesce(json_extract(j.body, '$.arguments'), '') AS arguments,
  coalesce(json_extract(j.body, '$.failure'), '{}') AS failure,
  coalesce(json_extract(j.body, '$.usage'), '{}') AS usage,
  j.version, j.written_us,
  coalesce(j.until_us, 0) AS until_us
FROM journal_entries AS j
LEFT JOIN run_rows AS r ON r.run_key = j.run_key;
