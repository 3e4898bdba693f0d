-- A group of commits, each of another run, in one statement. The rows name their run by its place among the heads
-- (`at`), and have durations where the tables have moments.
CREATE TYPE stepwell_head_0008 AS (
  tenant_id text, run_id text, version bigint, commit_id text, follows text);

CREATE TYPE stepwell_fence_0008 AS (at bigint, execution_id text, token text, recorded bigint);

CREATE TYPE stepwell_run_0008 AS (
  at bigint, tenant_id text, run_id text, pipeline_id text, queue text, executor_id text,
  parent_run_id text, uuid text,
  version bigint, commit_id text, last_event bigint, status text, phase text, blocked_on text, ended_us bigint,
  state text);

CREATE TYPE stepwell_run_spec_0008 AS (
  at bigint, priority bigint, spec text, input_params text, input_media_type text, input bytea);

CREATE TYPE stepwell_moved_run_0008 AS (
  at bigint, version bigint, commit_id text, last_event bigint, status text, phase text, blocked_on text,
  ended_us bigint, state text);

CREATE TYPE stepwell_plan_0008 AS (
  at bigint, revision bigint, version bigint, task_count bigint, created_us bigint, trigger text, plan text);

CREATE TYPE stepwell_task_spec_0008 AS (
  at bigint, task_id text, revision bigint, position bigint, version bigint, number bigint, spec text);

CREATE TYPE stepwell_task_0008 AS (
  at bigint, task_id text, revision bigint, status text, version bigint, state text);

CREATE TYPE stepwell_execution_0008 AS (
  at bigint, execution_id text, task_id text, status text, version bigint, body text, tenant_id text,
  queue text, kind text, role text, type text, pin text, priority bigint, available_us bigint,
  token text, worker_id text, instance_id text, deadline_us bigint, limit_us bigint);

CREATE TYPE stepwell_outcome_0008 AS (
  at bigint, execution_id text, result_media_type text, result bytea, prompt text, response text, receipt text);

CREATE TYPE stepwell_timer_0008 AS (at bigint, name text, version bigint, due_us bigint);

CREATE TYPE stepwell_question_0008 AS (at bigint, question_id text, status text, tenant_id text, body text);

CREATE TYPE stepwell_message_0008 AS (at bigint, task_id text, role text, body text);

CREATE TYPE stepwell_request_0008 AS (at bigint, committed_version bigint, body text);

CREATE TYPE stepwell_session_0008 AS (
  at bigint, backend text, session_id text, task_id text, execution_id text);

CREATE TYPE stepwell_checkpoint_0008 AS (
  at bigint, version bigint, cycle bigint, created_us bigint, state text, base bytea);

CREATE TYPE stepwell_commit_row_0008 AS (
  at bigint, tenant_id text, version bigint, commit_id text, committed_us bigint, last_event bigint,
  events text, changed text);

CREATE TYPE stepwell_name_0008 AS (at bigint, name text);

CREATE FUNCTION stepwell_stays_leased_0008(status text, token text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT token IS NULL AND status IN ('LEASED', 'UNKNOWN_OUTCOME') $$;

CREATE TYPE stepwell_journal_write_0008 AS (
  at bigint, is_forgotten boolean, journal text, step bigint, generation bigint, name bigint, key text, mark text,
  number bigint, at_most_once bigint, version bigint, sleep_us bigint, words bigint, body text,
  value_media_type text, value bytea);

CREATE FUNCTION stepwell_commit_0008(
  heads stepwell_head_0008[], fences stepwell_fence_0008[],
  new_runs stepwell_run_0008[], new_run_specs stepwell_run_spec_0008[], moved_runs stepwell_moved_run_0008[],
  new_plans stepwell_plan_0008[], new_task_specs stepwell_task_spec_0008[], new_tasks stepwell_task_0008[],
  dropped_tasks stepwell_name_0008[], new_executions stepwell_execution_0008[],
  new_outcomes stepwell_outcome_0008[], new_timers stepwell_timer_0008[], dropped_timers stepwell_name_0008[],
  new_questions stepwell_question_0008[], new_messages stepwell_message_0008[], new_requests stepwell_request_0008[],
  new_sessions stepwell_session_0008[], new_checkpoints stepwell_checkpoint_0008[],
  new_commits stepwell_commit_row_0008[], journal_writes stepwell_journal_write_0008[],
  OUT verdicts text[], OUT now_us bigint
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  us bigint;
  keys bigint[];
  head record;
  entry record;
  lost bigint[];
  ignorant bigint[];
  place bigint;
  wanted bigint;
  written bigint;
  more bigint;
BEGIN
  IF new_runs IS NOT NULL THEN
    -- The parents of forks stay: a deletion of one waits, or was first, and then it is not found below.
    PERFORM FROM unnest(new_runs) AS b
    JOIN run_rows AS r ON r.tenant_id = b.tenant_id AND r.run_id = b.parent_run_id
    WHERE b.parent_run_id <> ''
    ORDER BY r.tenant_id COLLATE "C", r.run_id COLLATE "C"
    FOR KEY SHARE OF r;
  END IF;
  IF journal_writes IS NOT NULL THEN
    PERFORM stepwell_lock_journals_0008(
      ARRAY(SELECT heads[w.at].tenant_id FROM unnest(journal_writes) AS w),
      ARRAY(SELECT heads[w.at].run_id FROM unnest(journal_writes) AS w));
  END IF;
  us := stepwell_now_us();
  -- What is known without a lock holds only if the run is still at that version when it is written.
  SELECT
    array_agg(CASE f.verdict WHEN 'COMMITTED' THEN f.run_key END ORDER BY f.at),
    array_agg(f.verdict ORDER BY f.at)
  INTO keys, verdicts
  FROM (
    SELECT h.at, r.run_key, CASE
      WHEN r.version = h.version - 1 AND h.follows IN ('', r.commit_id) THEN 'COMMITTED'
      WHEN r.version >= h.version THEN 'DONE'
      WHEN r.version IS NULL AND h.version = 1 THEN 'NEW'
      ELSE 'CONFLICT' END AS verdict
    FROM unnest(heads) WITH ORDINALITY AS h(tenant_id, run_id, version, commit_id, follows, at)
    LEFT JOIN run_rows AS r ON r.tenant_id = h.tenant_id AND r.run_id = h.run_id
  ) AS f;
  IF 'DONE' = ANY (verdicts) THEN
    FOR head IN
      SELECT h.at, c.commit_id = h.commit_id AS same
      FROM unnest(heads) WITH ORDINALITY AS h(tenant_id, run_id, version, commit_id, follows, at)
      JOIN run_rows AS r ON r.tenant_id = h.tenant_id AND r.run_id = h.run_id
      LEFT JOIN commits AS c ON c.run_key = r.run_key AND c.version = h.version
      WHERE verdicts[h.at] = 'DONE'
    LOOP
      verdicts[head.at] := CASE WHEN head.same THEN 'COMMITTED' ELSE 'CONFLICT' END;
    END LOOP;
  END IF;
  IF 'NEW' = ANY (verdicts) THEN
    FOR head IN
      SELECT b.at, NOT EXISTS (
          SELECT FROM tombstones AS t WHERE t.tenant_id = b.tenant_id AND t.run_id = b.run_id
            AND t.expires_us > us
        ) AND (b.parent_run_id = '' OR EXISTS (
          SELECT FROM run_rows AS r WHERE r.tenant_id = b.tenant_id AND r.run_id = b.parent_run_id
        )) AS allowed
      FROM unnest(new_runs) AS b WHERE verdicts[b.at] = 'NEW'
    LOOP
      IF head.allowed THEN
        keys[head.at] := nextval('run_rows_run_key_seq');
        verdicts[head.at] := 'COMMITTED';
      ELSE
        verdicts[head.at] := 'CONFLICT';
      END IF;
    END LOOP;
  END IF;
  IF fences IS NOT NULL THEN
    SELECT array_agg(DISTINCT f.at) FILTER (WHERE (e.token = f.token AND f.token <> '') IS NOT TRUE),
      array_agg(DISTINCT f.at) FILTER (WHERE f.recorded >= 0 AND f.recorded <> coalesce(s.entries, 0))
    INTO lost, ignorant
    FROM unnest(fences) AS f
    LEFT JOIN executions AS e ON e.run_key = keys[f.at] AND e.execution_id = f.execution_id
    LEFT JOIN lease_sums AS s ON s.run_key = keys[f.at] AND s.execution_id = f.execution_id AND s.token = f.token
    WHERE keys[f.at] IS NOT NULL;
    FOREACH place IN ARRAY coalesce(ignorant, '{}') LOOP
      keys[place] := NULL;
      verdicts[place] := 'CONFLICT';
    END LOOP;
    FOREACH place IN ARRAY coalesce(lost, '{}') LOOP
      keys[place] := NULL;
      verdicts[place] := 'LEASE_LOST';
    END LOOP;
  END IF;
  now_us := us;
  wanted := cardinality(array_remove(keys, NULL));
  IF wanted = 0 THEN
    RETURN;
  END IF;
  UPDATE run_rows AS r SET
    version = m.version, commit_id = m.commit_id, last_event = m.last_event, status = m.status, phase = m.phase,
    blocked_on = m.blocked_on, ended_us = m.ended_us, state = m.state::json
  FROM unnest(moved_runs) AS m
  WHERE r.run_key = keys[m.at] AND r.version = m.version - 1;
  GET DIAGNOSTICS written = ROW_COUNT;
  IF new_runs IS NOT NULL THEN
    FOR attempt IN 1 .. 2 LOOP
      INSERT INTO run_rows (
        run_key, tenant_id, run_id, pipeline_id, queue, executor_id, parent_run_id, uuid, version,
        commit_id, last_event, status, phase, blocked_on, ended_us, state)
      SELECT keys[b.at], b.tenant_id, b.run_id, b.pipeline_id, b.queue, b.executor_id, b.parent_run_id,
        CASE attempt WHEN 1 THEN b.uuid::uuid ELSE gen_random_uuid() END, b.version,
        b.commit_id, b.last_event, b.status, b.phase, b.blocked_on, b.ended_us, b.state::json
      FROM unnest(new_runs) AS b
      WHERE keys[b.at] IS NOT NULL AND NOT EXISTS (SELECT FROM run_rows AS r WHERE r.run_key = keys[b.at])
      ORDER BY b.tenant_id COLLATE "C", b.run_id COLLATE "C"
      ON CONFLICT DO NOTHING;
      GET DIAGNOSTICS more = ROW_COUNT;
      written := written + more;
      -- Else a run with another id may have a UUID that begins alike.
      EXIT WHEN written = wanted;
    END LOOP;
    IF EXISTS (
      SELECT FROM unnest(new_runs) AS b
      JOIN tombstones AS t ON t.tenant_id = b.tenant_id AND t.run_id = b.run_id
      WHERE keys[b.at] IS NOT NULL AND t.expires_us > us
    ) THEN
      -- Created and deleted by others in the meantime: only now can that be seen.
      written := 0;
    END IF;
  END IF;
  IF written < wanted THEN
    RAISE EXCEPTION 'other transactions changed the same runs' USING ERRCODE = 'serialization_failure';
  END IF;
  IF new_run_specs IS NOT NULL THEN
    INSERT INTO run_specs (run_key, priority, spec, input_params, input_media_type, input)
    SELECT keys[s.at], s.priority, s.spec::json, s.input_params::jsonb, s.input_media_type, s.input
    FROM unnest(new_run_specs) AS s WHERE keys[s.at] IS NOT NULL;
  END IF;
  IF new_plans IS NOT NULL THEN
    INSERT INTO plans (run_key, revision, version, task_count, created_us, trigger, plan)
    SELECT keys[p.at], p.revision, p.version, p.task_count, p.created_us, p.trigger, p.plan::json
    FROM unnest(new_plans) AS p WHERE keys[p.at] IS NOT NULL
    ON CONFLICT (run_key, revision) DO UPDATE SET
      version = excluded.version, task_count = excluded.task_count, created_us = excluded.created_us,
      trigger = excluded.trigger, plan = excluded.plan;
  END IF;
  IF new_task_specs IS NOT NULL THEN
    INSERT INTO task_specs (run_key, task_id, revision, position, version, number, spec)
    SELECT keys[s.at], s.task_id, s.revision, s.position, s.version, s.number, s.spec::json
    FROM unnest(new_task_specs) AS s WHERE keys[s.at] IS NOT NULL
    ON CONFLICT (run_key, task_id) DO UPDATE SET
      revision = excluded.revision, position = excluded.position, version = excluded.version,
      spec = excluded.spec;
  END IF;
  IF dropped_tasks IS NOT NULL THEN
    DELETE FROM task_rows AS t USING unnest(dropped_tasks) AS d
    WHERE t.run_key = keys[d.at] AND t.task_id = d.name;
  END IF;
  IF new_tasks IS NOT NULL THEN
    INSERT INTO task_rows (run_key, task_id, revision, status, version, state)
    SELECT s.run_key, t.task_id, t.revision, t.status, t.version, t.state::json
    FROM unnest(new_tasks) AS t
    JOIN task_specs AS s ON s.run_key = keys[t.at] AND s.task_id = t.task_id AND s.revision = t.revision
    ON CONFLICT (run_key, task_id) DO UPDATE SET
      revision = excluded.revision, status = excluded.status, version = excluded.version,
      state = excluded.state;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written < cardinality(new_tasks) THEN
      -- Tasks that came without their plan are defined by the plan before, if it is there.
      WITH undefined AS MATERIALIZED (
        SELECT keys[t.at] AS run_key, t.task_id, t.revision, t.status, t.version, t.state::json AS state, t.place
        FROM unnest(new_tasks) WITH ORDINALITY AS t(at, task_id, revision, status, version, state, place)
        WHERE keys[t.at] IS NOT NULL AND NOT EXISTS (
          SELECT FROM task_specs AS s
          WHERE s.run_key = keys[t.at] AND s.task_id = t.task_id AND s.revision = t.revision)
      ), defined AS (
        INSERT INTO task_specs (run_key, task_id, revision, position, version, number, spec)
        SELECT u.run_key, u.task_id, u.revision, coalesce(d.place - 1, 2147483647), u.version,
          u.version * 65536 + 32767 + u.place, coalesce(d.spec, '{}')
        FROM undefined AS u
        LEFT JOIN LATERAL (
          SELECT o.place, (SELECT json_object_agg(key, value) FROM json_each(o.task) WHERE key <> 'input') AS spec
          FROM plans AS p CROSS JOIN json_array_elements(p.plan -> 'tasks') WITH ORDINALITY AS o(task, place)
          WHERE p.run_key = u.run_key AND p.revision = u.revision AND o.task ->> 'task_id' = u.task_id
        ) AS d ON true
        ON CONFLICT (run_key, task_id) DO UPDATE SET
          revision = excluded.revision, position = excluded.position, version = excluded.version,
          spec = excluded.spec
      )
      INSERT INTO task_rows (run_key, task_id, revision, status, version, state)
      SELECT run_key, task_id, revision, status, version, state FROM undefined
      ON CONFLICT (run_key, task_id) DO UPDATE SET
        revision = excluded.revision, status = excluded.status, version = excluded.version,
        state = excluded.state;
    END IF;
  END IF;
  IF new_executions IS NOT NULL THEN
    -- Numbered in the order given, and locked in that of their names, as heartbeats do. One that stays with its worker
    -- brings no token, and keeps its lease.
    INSERT INTO executions AS here (
      seq, run_key, execution_id, task_id, status, version, body, tenant_id, queue, kind, role, type, pin,
      priority, available_us, token, worker_id, instance_id, deadline_us, limit_us)
    SELECT e.seq, keys[e.at], e.execution_id, e.task_id, e.status, e.version, e.body::json, e.tenant_id, e.queue,
      e.kind, e.role, e.type, e.pin, e.priority, us + e.available_us, e.token, e.worker_id, e.instance_id,
      us + e.deadline_us, CASE WHEN e.limit_us > 0 THEN us + e.limit_us ELSE e.limit_us END
    FROM (SELECT nextval('executions_seq_seq') AS seq, * FROM unnest(new_executions)) AS e
    WHERE keys[e.at] IS NOT NULL
    ORDER BY e.at, e.execution_id COLLATE "C"
    ON CONFLICT (run_key, execution_id) DO UPDATE SET
      task_id = excluded.task_id, status = excluded.status, version = excluded.version, body = excluded.body,
      tenant_id = excluded.tenant_id, queue = excluded.queue, kind = excluded.kind, role = excluded.role,
      type = excluded.type, pin = excluded.pin, priority = excluded.priority,
      available_us = excluded.available_us, held_until_us = 0,
      token = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.token ELSE excluded.token END,
      worker_id = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.worker_id ELSE excluded.worker_id END,
      instance_id = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.instance_id ELSE excluded.instance_id END,
      deadline_us = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.deadline_us ELSE excluded.deadline_us END,
      limit_us = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.limit_us ELSE excluded.limit_us END,
      session_backend = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.session_backend END,
      session_id = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.session_id END,
      progress_media_type = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.progress_media_type END,
      progress = CASE WHEN stepwell_stays_leased_0008(excluded.status, excluded.token)
        THEN here.progress END;
  END IF;
  IF fences IS NOT NULL AND EXISTS (
    SELECT FROM unnest(fences) AS f
    JOIN lease_sums AS s ON s.run_key = keys[f.at] AND s.execution_id = f.execution_id AND s.token = f.token
    WHERE f.recorded >= 0 AND s.entries <> f.recorded
  ) THEN
    -- Recorded since the fences were looked at. From now on the executions are locked.
    RAISE EXCEPTION 'entries were recorded meanwhile' USING ERRCODE = 'serialization_failure';
  END IF;
  IF new_outcomes IS NOT NULL THEN
    INSERT INTO outcomes (run_key, execution_id, result_media_type, result, prompt, response, receipt)
    SELECT keys[o.at], o.execution_id, o.result_media_type, o.result, o.prompt, o.response, o.receipt
    FROM unnest(new_outcomes) AS o WHERE keys[o.at] IS NOT NULL
    ON CONFLICT (run_key, execution_id) DO NOTHING;
  END IF;
  IF new_timers IS NOT NULL THEN
    INSERT INTO timers (run_key, name, version, due_us, held_until_us)
    SELECT keys[t.at], t.name, t.version, us + t.due_us, 0
    FROM unnest(new_timers) AS t WHERE keys[t.at] IS NOT NULL
    ON CONFLICT (run_key, name) DO UPDATE SET
      version = excluded.version, due_us = excluded.due_us, held_until_us = excluded.held_until_us;
  END IF;
  IF dropped_timers IS NOT NULL THEN
    DELETE FROM timers AS t USING unnest(dropped_timers) AS d WHERE t.run_key = keys[d.at] AND t.name = d.name;
  END IF;
  IF new_questions IS NOT NULL THEN
    INSERT INTO questions (run_key, question_id, status, tenant_id, body)
    SELECT keys[i.at], i.question_id, i.status, i.tenant_id, i.body::json
    FROM unnest(new_questions) AS i WHERE keys[i.at] IS NOT NULL
    ON CONFLICT (run_key, question_id) DO UPDATE SET
      status = excluded.status, tenant_id = excluded.tenant_id, body = excluded.body;
  END IF;
  IF new_messages IS NOT NULL THEN
    INSERT INTO messages (run_key, task_id, role, body)
    SELECT keys[m.at], m.task_id, m.role, m.body::json
    FROM unnest(new_messages) AS m WHERE keys[m.at] IS NOT NULL;
  END IF;
  IF new_requests IS NOT NULL THEN
    INSERT INTO requests (run_key, committed_version, body)
    SELECT keys[q.at], q.committed_version, q.body::json
    FROM unnest(new_requests) AS q WHERE keys[q.at] IS NOT NULL;
  END IF;
  IF new_sessions IS NOT NULL THEN
    INSERT INTO sessions (run_key, backend, session_id, task_id, execution_id)
    SELECT keys[s.at], s.backend, s.session_id, s.task_id, s.execution_id
    FROM unnest(new_sessions) AS s WHERE keys[s.at] IS NOT NULL
    ON CONFLICT (run_key, backend, session_id) DO UPDATE SET
      task_id = excluded.task_id, execution_id = excluded.execution_id;
  END IF;
  IF new_checkpoints IS NOT NULL THEN
    INSERT INTO checkpoints (run_key, version, cycle, created_us, state, base)
    SELECT keys[k.at], k.version, k.cycle, k.created_us, k.state::json, k.base
    FROM unnest(new_checkpoints) AS k WHERE keys[k.at] IS NOT NULL;
  END IF;
  IF journal_writes IS NOT NULL THEN
    DELETE FROM journal_entries AS e USING unnest(journal_writes) AS w
    WHERE w.is_forgotten AND e.run_key = keys[w.at] AND e.step = w.step AND e.name = w.name AND e.journal = w.journal
      AND e.generation = w.generation AND stepwell_is_named_0008(e.body, w.key, w.mark, w.number);
    FOR entry IN
      SELECT w.* FROM unnest(journal_writes) AS w WHERE NOT w.is_forgotten AND keys[w.at] IS NOT NULL
    LOOP
      -- One after another: of those with one name the first stays.
      INSERT INTO journal_entries (
        run_key, step, name, generation, at_most_once, version, written_us, journal, until_us, words, body,
        value_media_type, value)
      SELECT keys[entry.at], entry.step, entry.name, entry.generation, entry.at_most_once, entry.version, us,
        entry.journal, us + entry.sleep_us, entry.words, entry.body::json, entry.value_media_type, entry.value
      WHERE NOT EXISTS (
        SELECT FROM journal_entries AS e
        WHERE e.run_key = keys[entry.at] AND e.step = entry.step AND e.name = entry.name
          AND e.journal = entry.journal AND (e.generation = entry.generation OR e.at_most_once = 1)
          AND stepwell_is_named_0008(e.body, entry.key, entry.mark, entry.number));
    END LOOP;
  END IF;
  INSERT INTO commits (run_key, tenant_id, version, commit_id, committed_us, last_event, events, changed)
  SELECT keys[c.at], c.tenant_id, c.version, c.commit_id, us, c.last_event, c.events::json, c.changed::json
  FROM unnest(new_commits) AS c WHERE keys[c.at] IS NOT NULL;
END $$;
