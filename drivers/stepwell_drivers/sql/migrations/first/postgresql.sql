CREATE TABLE run_rows (
  run_key BIGSERIAL NOT NULL,
  tenant_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  run_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  pipeline_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  queue TEXT COLLATE "C" DEFAULT '' NOT NULL,
  executor_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  parent_run_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  uuid UUID NOT NULL,
  status TEXT COLLATE "C" DEFAULT '' NOT NULL,
  phase TEXT COLLATE "C" DEFAULT '' NOT NULL,
  blocked_on TEXT COLLATE "C" DEFAULT '' NOT NULL,
  commit_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  last_event BIGINT DEFAULT '0' NOT NULL,
  ended_us BIGINT DEFAULT '0' NOT NULL,
  state JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key),
  UNIQUE (tenant_id, run_id)
)
 WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX runs_by_birth ON run_rows (tenant_id, run_key) WHERE tenant_id >= '';

CREATE INDEX runs_by_status ON run_rows (tenant_id, status, run_key) WHERE tenant_id >= '';

CREATE INDEX runs_by_pipeline ON run_rows (tenant_id, pipeline_id, run_key) WHERE tenant_id >= '';

CREATE INDEX runs_by_uuid ON run_rows (uuid);

CREATE UNIQUE INDEX runs_by_uuid_start ON run_rows (left(uuid::text, 23));

CREATE INDEX runs_by_parent ON run_rows (tenant_id, parent_run_id, run_key) WHERE parent_run_id <> '';

CREATE INDEX runs_ended ON run_rows (status, ended_us, tenant_id, run_id) WHERE (status = 'SUCCEEDED' OR status = 'FAILED' OR status = 'CANCELLED');

CREATE INDEX runs_ended_of_tenant ON run_rows (tenant_id, status, ended_us, run_id) WHERE (status = 'SUCCEEDED' OR status = 'FAILED' OR status = 'CANCELLED');

CREATE INDEX runs_ended_of_pipeline ON run_rows (tenant_id, pipeline_id, status, ended_us, run_id) WHERE (status = 'SUCCEEDED' OR status = 'FAILED' OR status = 'CANCELLED');

CREATE TABLE run_specs (
  run_key BIGINT NOT NULL,
  priority BIGINT DEFAULT '0' NOT NULL,
  spec JSON DEFAULT '{}' NOT NULL,
  input_params JSONB,
  input_media_type TEXT COLLATE "C",
  input BYTEA,
  PRIMARY KEY (run_key)
);

CREATE TABLE plans (
  run_key BIGINT NOT NULL,
  revision BIGINT DEFAULT '0' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  task_count BIGINT DEFAULT '0' NOT NULL,
  created_us BIGINT DEFAULT '0' NOT NULL,
  trigger TEXT COLLATE "C" DEFAULT '' NOT NULL,
  plan JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key, revision)
);

CREATE TABLE task_specs (
  run_key BIGINT NOT NULL,
  task_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  revision BIGINT DEFAULT '0' NOT NULL,
  position BIGINT DEFAULT '2147483647' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  number BIGINT DEFAULT '0' NOT NULL,
  spec JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key, task_id)
);

CREATE INDEX tasks_in_order ON task_specs (run_key, revision, position, task_id) WHERE run_key >= 0;

CREATE TABLE task_rows (
  run_key BIGINT NOT NULL,
  task_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  revision BIGINT DEFAULT '0' NOT NULL,
  status TEXT COLLATE "C" DEFAULT '' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  state JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key, task_id)
)
 WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE executions (
  seq BIGSERIAL NOT NULL,
  run_key BIGINT NOT NULL,
  execution_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  task_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  status TEXT COLLATE "C" DEFAULT '' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  body JSON DEFAULT '{}' NOT NULL,
  tenant_id TEXT COLLATE "C",
  queue TEXT COLLATE "C",
  kind TEXT COLLATE "C",
  role TEXT COLLATE "C",
  type TEXT COLLATE "C",
  pin TEXT COLLATE "C",
  priority BIGINT,
  available_us BIGINT,
  token TEXT COLLATE "C",
  worker_id TEXT COLLATE "C",
  instance_id TEXT COLLATE "C",
  deadline_us BIGINT,
  limit_us BIGINT,
  session_backend TEXT COLLATE "C",
  session_id TEXT COLLATE "C",
  progress_media_type TEXT COLLATE "C",
  progress BYTEA,
  held_until_us BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (seq),
  UNIQUE (run_key, execution_id)
)
 WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX executions_in_order ON executions (run_key, seq) WHERE run_key >= 0;

CREATE INDEX executions_of_task ON executions (run_key, task_id, seq) WHERE run_key >= 0;

CREATE INDEX executions_open ON executions (run_key) WHERE tenant_id IS NOT NULL;

CREATE INDEX executions_ready ON executions (tenant_id, queue, kind, role, type, pin, priority, available_us, seq) WHERE status = 'READY';

CREATE INDEX executions_delayed ON executions (available_us) WHERE status = 'READY';

CREATE INDEX executions_due ON executions (deadline_us, seq) WHERE status = 'LEASED';

CREATE INDEX executions_of_worker ON executions (tenant_id, worker_id) WHERE worker_id IS NOT NULL;

CREATE INDEX executions_held ON executions (held_until_us) WHERE held_until_us > 0;

CREATE TABLE outcomes (
  run_key BIGINT NOT NULL,
  execution_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  result_media_type TEXT COLLATE "C",
  result BYTEA,
  prompt TEXT COLLATE "C",
  response TEXT COLLATE "C",
  receipt TEXT COLLATE "C",
  PRIMARY KEY (run_key, execution_id)
);

CREATE TABLE timers (
  run_key BIGINT NOT NULL,
  name TEXT COLLATE "C" DEFAULT '' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  due_us BIGINT DEFAULT '0' NOT NULL,
  held_until_us BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (run_key, name)
)
 WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX timers_due ON timers (due_us, run_key, name);

CREATE INDEX timers_held ON timers (held_until_us) WHERE held_until_us > 0;

CREATE TABLE commits (
  seq BIGSERIAL NOT NULL,
  run_key BIGINT NOT NULL,
  tenant_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  deleted_run_id TEXT COLLATE "C",
  version BIGINT DEFAULT '0' NOT NULL,
  commit_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  committed_us BIGINT DEFAULT '0' NOT NULL,
  last_event BIGINT DEFAULT '0' NOT NULL,
  events JSON DEFAULT '[]' NOT NULL,
  changed JSON,
  xid BIGINT DEFAULT (pg_current_xact_id()::text::bigint) NOT NULL,
  PRIMARY KEY (seq),
  UNIQUE (run_key, version)
);

CREATE INDEX commits_by_event ON commits (run_key, last_event) WHERE run_key >= 0;

CREATE INDEX commits_fed ON commits (xid, seq);

CREATE INDEX commits_fed_of_tenant ON commits (tenant_id, xid, seq) WHERE tenant_id >= '';

CREATE TABLE questions (
  seq BIGSERIAL NOT NULL,
  run_key BIGINT NOT NULL,
  question_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  status TEXT COLLATE "C" DEFAULT '' NOT NULL,
  tenant_id TEXT COLLATE "C",
  body JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (seq),
  UNIQUE (run_key, question_id)
);

CREATE INDEX questions_in_order ON questions (run_key, seq) WHERE run_key >= 0;

CREATE INDEX questions_open ON questions (run_key) WHERE status = 'OPEN';

CREATE INDEX questions_waiting ON questions (tenant_id, seq) WHERE status = 'OPEN';

CREATE TABLE checkpoints (
  run_key BIGINT NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  cycle BIGINT DEFAULT '0' NOT NULL,
  state JSON DEFAULT '{}' NOT NULL,
  created_us BIGINT DEFAULT '0' NOT NULL,
  base BYTEA,
  PRIMARY KEY (run_key, version)
);

CREATE INDEX checkpoints_based ON checkpoints (run_key, version) WHERE base IS NOT NULL;

CREATE TABLE requests (
  run_key BIGINT NOT NULL,
  committed_version BIGINT DEFAULT '0' NOT NULL,
  body JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (run_key, committed_version)
);

CREATE TABLE sessions (
  run_key BIGINT NOT NULL,
  backend TEXT COLLATE "C" DEFAULT '' NOT NULL,
  session_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  task_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  execution_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  PRIMARY KEY (run_key, backend, session_id)
);

CREATE TABLE messages (
  seq BIGSERIAL NOT NULL,
  run_key BIGINT NOT NULL,
  task_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  role TEXT COLLATE "C" DEFAULT '' NOT NULL,
  body JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (seq)
);

CREATE INDEX messages_in_order ON messages (run_key, seq) WHERE run_key >= 0;

CREATE INDEX messages_of_task ON messages (run_key, task_id, seq) WHERE run_key >= 0;

CREATE TABLE logs (
  seq BIGSERIAL NOT NULL,
  run_key BIGINT NOT NULL,
  execution_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  kind TEXT COLLATE "C" DEFAULT '' NOT NULL,
  appended_us BIGINT DEFAULT '0' NOT NULL,
  body JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (seq)
);

CREATE INDEX logs_in_order ON logs (run_key, seq) WHERE run_key >= 0;

CREATE INDEX logs_of_execution ON logs (run_key, execution_id, seq) WHERE run_key >= 0;

CREATE TABLE journal_entries (
  seq BIGSERIAL NOT NULL,
  run_key BIGINT NOT NULL,
  step BIGINT DEFAULT '0' NOT NULL,
  name BIGINT DEFAULT '0' NOT NULL,
  generation BIGINT DEFAULT '0' NOT NULL,
  at_most_once BIGINT DEFAULT '0' NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  written_us BIGINT DEFAULT '0' NOT NULL,
  journal TEXT COLLATE "C" DEFAULT '' NOT NULL,
  execution_id TEXT COLLATE "C",
  until_us BIGINT,
  words BIGINT DEFAULT '0' NOT NULL,
  body JSON DEFAULT '{}' NOT NULL,
  value_media_type TEXT COLLATE "C",
  value BYTEA,
  PRIMARY KEY (seq)
);

CREATE INDEX journal_by_name ON journal_entries (run_key, step, name);

CREATE TABLE lease_sums (
  run_key BIGINT NOT NULL,
  execution_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  token TEXT COLLATE "C" DEFAULT '' NOT NULL,
  entries BIGINT DEFAULT '0' NOT NULL,
  bytes BIGINT DEFAULT '0' NOT NULL,
  messages BIGINT DEFAULT '0' NOT NULL,
  input_tokens BIGINT DEFAULT '0' NOT NULL,
  output_tokens BIGINT DEFAULT '0' NOT NULL,
  cost_micros BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (run_key, execution_id)
)
 WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE reservations (
  tenant_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  pipeline_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  key TEXT COLLATE "C" DEFAULT '' NOT NULL,
  run_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  commit_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  PRIMARY KEY (tenant_id, pipeline_id, key)
)
 WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX reservations_of_run ON reservations (tenant_id, run_id, pipeline_id, key) WHERE tenant_id >= '';

CREATE TABLE workers (
  tenant_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  worker_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  instance_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  expires_us BIGINT DEFAULT '0' NOT NULL,
  body JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (tenant_id, worker_id, instance_id)
);

CREATE INDEX workers_by_expiry ON workers (expires_us);

CREATE TABLE tombstones (
  tenant_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  run_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
  run_key BIGINT NOT NULL,
  version BIGINT DEFAULT '0' NOT NULL,
  expires_us BIGINT DEFAULT '0' NOT NULL,
  PRIMARY KEY (tenant_id, run_id)
);

CREATE INDEX tombstones_by_expiry ON tombstones (expires_us);

CREATE TABLE meta (
  key TEXT COLLATE "C" DEFAULT '' NOT NULL,
  value TEXT COLLATE "C" DEFAULT '' NOT NULL,
  PRIMARY KEY (key)
);

CREATE SEQUENCE stepwell_clock_last MINVALUE 0 START 0;

CREATE SEQUENCE stepwell_clock_ahead MINVALUE 0 START 0;

CREATE FUNCTION stepwell_now_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ahead_us bigint := coalesce(pg_sequence_last_value('stepwell_clock_ahead'), 0);
  last_us bigint := coalesce(pg_sequence_last_value('stepwell_clock_last'), 0);
  -- After these: a session that is stopped for a while in between has not seen time go back.
  now_us bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ahead_us;
BEGIN
  IF now_us >= last_us + 1000000 AND current_setting('transaction_read_only') = 'off' THEN
    PERFORM setval('stepwell_clock_last', now_us);
  ELSIF now_us < last_us - 1000000 AND current_setting('transaction_read_only') = 'off' THEN
    PERFORM setval('stepwell_clock_ahead', ahead_us + last_us - now_us);
  END IF;
  RETURN greatest(now_us, last_us);
END $$;

CREATE VIEW runs AS
SELECT
  r.uuid AS id, r.pipeline_id, lower(r.status) AS status, s.input_params, r.executor_id, r.tenant_id,
  r.run_id, r.run_key,
  coalesce(s.spec ->> 'goal', '') AS goal,
  r.queue,
  coalesce(CAST(s.spec -> 'labels' AS jsonb), '{}') AS labels,
  s.priority, r.phase,
  coalesce(CAST(r.state ->> 'iteration' AS bigint), 1) AS iteration,
  coalesce(CAST(r.state ->> 'plan_revision' AS bigint), 0) AS plan_revision,
  r.version, r.blocked_on,
  coalesce(r.state ->> 'pause_reason', 'NONE') AS pause_reason,
  coalesce(r.state ->> 'finish_reason', 'NONE') AS finish_reason,
  coalesce(r.state ->> 'reason', '') AS reason,
  coalesce(CAST(r.state -> 'failure' AS jsonb), '{}') AS failure,
  coalesce(CAST(r.state -> 'counts' AS jsonb), '{}') AS counts,
  coalesce(CAST(r.state -> 'usage' AS jsonb), '{}') AS usage,
  coalesce(CAST(r.state -> 'budget' AS jsonb), '{}') AS budget,
  r.parent_run_id,
  coalesce(r.state ->> 'result_id', '') AS result_id,
  coalesce(r.state ->> 'actor', '') AS actor,
  coalesce(r.state ->> 'on_behalf_of', '') AS on_behalf_of,
  coalesce(CAST(r.state ->> 'created_us' AS bigint), 0) AS created_us,
  coalesce(CAST(r.state ->> 'started_us' AS bigint), 0) AS started_us,
  r.ended_us
FROM run_rows AS r
LEFT JOIN run_specs AS s ON s.run_key = r.run_key;

CREATE VIEW tasks AS
SELECT
  CAST(left(CAST(r.uuid AS text), 24) || lpad(to_hex(s.number & 281474976710655), 12, '0') AS uuid) AS id,
  r.uuid AS run_id,
  coalesce(s.spec ->> 'type', '') AS type,
  CASE t.status WHEN 'READY' THEN 'pending' ELSE coalesce(lower(t.status), 'pending') END AS status,
  coalesce(
    nullif(coalesce(s.spec ->> 'idempotency_key', ''), ''),
    r.run_id || '/task:' || s.task_id || '@' || s.revision
  ) AS idempotency_key,
  r.tenant_id, s.task_id, r.run_id AS run_name, s.run_key,
  coalesce(s.spec ->> 'title', '') AS title,
  coalesce(s.spec ->> 'role', '') AS role,
  coalesce(s.spec ->> 'prompt', '') AS prompt,
  s.revision,
  coalesce(CAST(t.state ->> 'attempts' AS bigint), 0) AS attempts,
  coalesce(CAST(s.spec -> 'depends_on' AS jsonb), '[]') AS depends_on,
  coalesce(CAST(s.spec -> 'retry' AS jsonb), '{}') AS retry,
  coalesce(s.spec ->> 'effect', 'IDEMPOTENT') AS effect,
  coalesce(s.spec ->> 'on_failure', 'FAIL_RUN') AS on_failure,
  coalesce(CAST(t.state -> 'failure' AS jsonb), '{}') AS failure,
  coalesce(t.state ->> 'result_id', '') AS result_id,
  coalesce(t.state ->> 'result_run_id', '') AS result_run_id,
  coalesce(t.state ->> 'deduplicated_from', '') AS deduplicated_from,
  coalesce(t.version, s.version) AS version,
  coalesce(CAST(t.state ->> 'started_us' AS bigint), 0) AS started_us,
  coalesce(CAST(t.state ->> 'ended_us' AS bigint), 0) AS ended_us
FROM task_specs AS s
LEFT JOIN run_rows AS r ON r.run_key = s.run_key
LEFT JOIN task_rows AS t ON t.run_key = s.run_key AND t.task_id = s.task_id;

CREATE VIEW events AS
SELECT
  CAST(left(CAST(r.uuid AS text), 24) || lpad(to_hex(e.number & 281474976710655), 12, '0') AS uuid) AS id,
  r.uuid AS run_id,
  (
    SELECT CAST(left(CAST(r.uuid AS text), 24) || lpad(to_hex(s.number & 281474976710655), 12, '0') AS uuid) FROM task_specs AS s
    WHERE s.run_key = e.run_key AND s.task_id = coalesce(e.event ->> 't', '')
  ) AS task_id,
  coalesce(e.event ->> 'y', '') AS type,
  CAST(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(CAST(e.event AS text), '"y":', '"type":'), '"at":', '"time_us":'), '"t":', '"task_id":'), '"x":', '"execution_id":'), '"T":', '"tasks":'), '"X":', '"executions":'), '"s":', '"status":'), '"k":', '"kind":'), '"i":', '"iteration":'), '"a":', '"attempt":'), '"A":', '"attempts":'), '"g":', '"allowance":'), '"q":', '"queue":'), '"w":', '"worker_id":'), '"r":', '"result_id":'), '"h":', '"has_result":'), '"o":', '"offered_us":'), '"l":', '"leased_us":'), '"b":', '"started_us":'), '"e":', '"ended_us":') AS jsonb) - ARRAY['type', 'time_us', 'task_id', 'execution_id', 'question_id', 'message', 'actor', 'on_behalf_of', 'plan_revision'] AS payload,
  e.tenant_id, e.number, r.run_id AS run_name,
  coalesce(e.event ->> 't', '') AS task_name,
  e.run_key, e.version,
  coalesce(CAST(e.event ->> 'at' AS bigint), 0) AS time_us,
  coalesce(e.event ->> 'x', '') AS execution_id,
  coalesce(e.event ->> 'question_id', '') AS question_id,
  coalesce(e.event ->> 'message', '') AS message,
  coalesce(e.event ->> 'actor', '') AS actor,
  coalesce(e.event ->> 'on_behalf_of', '') AS on_behalf_of,
  coalesce(CAST(e.event ->> 'plan_revision' AS bigint), 0) AS plan_revision
FROM (SELECT c.run_key, c.tenant_id, c.version, c.last_event + (j.place - json_array_length(c.events)) AS number, j.event FROM commits AS c, json_array_elements(c.events) WITH ORDINALITY AS j(event, place)) AS e
LEFT JOIN run_rows AS r ON r.run_key = e.run_key;

CREATE VIEW journal AS
SELECT
  r.uuid AS run_id, j.journal,
  coalesce(j.body ->> 'name', '') AS name,
  coalesce(j.body ->> 'key', '') AS key,
  lower(coalesce(j.body ->> 'mark', 'END')) AS mark,
  coalesce(CAST(j.body ->> 'took_ms' AS bigint), 0) AS took_ms,
  coalesce(length(j.value), 0) AS size,
  j.value, j.generation, r.tenant_id, r.run_id AS run_name, j.run_key,
  j.seq AS number,
  coalesce(j.execution_id, '') AS execution_id,
  coalesce(j.body ->> 'effect', 'IDEMPOTENT') AS effect,
  coalesce(j.body ->> 'arguments', '') AS arguments,
  coalesce(CAST(j.body -> 'failure' AS jsonb), '{}') AS failure,
  coalesce(CAST(j.body -> 'usage' AS jsonb), '{}') AS usage,
  j.version, j.written_us,
  coalesce(j.until_us, 0) AS until_us
FROM journal_entries AS j
LEFT JOIN run_rows AS r ON r.run_key = j.run_key;
