-- A group of recordings in one statement: entries of journals, each under its lease. An entry names its recording by
-- its place (`at`); of a name, given or kept, the first entry stands.
-- Nothing is written of a recording that was sent before calls were dropped: one whose `forget_number` is below its
-- execution's. The lock on that row keeps the commit off that would raise the number.
CREATE TYPE stepwell_recording_0008 AS (
  tenant_id text, run_id text, execution_id text, token text, journal text, step bigint, generation bigint,
  forget_number bigint);

CREATE TYPE stepwell_entry_0008 AS (
  at bigint, name bigint, key text, mark text, number bigint, at_most_once bigint, sleep_us bigint,
  words bigint, body text, value_media_type text, value bytea,
  bytes bigint, messages bigint, input_tokens bigint, output_tokens bigint, cost_micros bigint);

CREATE FUNCTION stepwell_is_named_0008(body json, key text, mark text, number bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT body ->> 'key' = key AND coalesce(body ->> 'mark', 'END') = mark
    AND coalesce((body ->> 'number')::bigint, 0) = number
$$;

-- Entries of a run are written one transaction after another, so that their numbers are in the order in which they can
-- be seen. Who takes these locks holds no row yet.
CREATE FUNCTION stepwell_lock_journals_0008(tenant_ids text[], run_ids text[]) RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT pg_advisory_xact_lock(k.lock) FROM (
    SELECT DISTINCT hashtextextended('journal ' || current_schema() || ' ' || r.run_key, 0) AS lock
    FROM unnest(tenant_ids, run_ids) AS g(tenant_id, run_id)
    JOIN run_rows AS r ON r.tenant_id = g.tenant_id AND r.run_id = g.run_id
    ORDER BY 1 OFFSET 0
  ) AS k
$$;

CREATE FUNCTION stepwell_record_0008(
  recordings stepwell_recording_0008[], entries stepwell_entry_0008[],
  OUT live boolean[], OUT late boolean[], OUT before bigint[], OUT states bigint[], OUT ends bigint[], OUT now_us bigint
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  us bigint;
  keys bigint[];
BEGIN
  PERFORM stepwell_lock_journals_0008(
    ARRAY(SELECT g.tenant_id FROM unnest(recordings) AS g), ARRAY(SELECT g.run_id FROM unnest(recordings) AS g));
  -- Whoever ends one of these leases waits, or has ended it. They are locked in the order of their names, as
  -- heartbeats and commits do.
  WITH held AS MATERIALIZED (
    SELECT g.at, e.run_key, g.forget_number < coalesce((e.body ->> 'forget_number')::bigint, 0) AS is_late
    FROM unnest(recordings) WITH ORDINALITY AS g(
      tenant_id, run_id, execution_id, token, journal, step, generation, forget_number, at)
    JOIN run_rows AS r ON r.tenant_id = g.tenant_id AND r.run_id = g.run_id
    JOIN executions AS e ON e.run_key = r.run_key AND e.execution_id = g.execution_id
    WHERE e.token = g.token AND g.token <> '' AND e.status = 'LEASED'
    ORDER BY g.at
    FOR NO KEY UPDATE OF e
  )
  SELECT array_agg(CASE WHEN NOT h.is_late THEN h.run_key END ORDER BY g.at),
    array_agg(h.run_key IS NOT NULL ORDER BY g.at), array_agg(coalesce(h.is_late, false) ORDER BY g.at)
  INTO keys, live, late
  FROM generate_subscripts(recordings, 1) AS g(at) LEFT JOIN held AS h ON h.at = g.at;
  us := stepwell_now_us();
  now_us := us;
  SELECT array_agg(v.value ORDER BY g.at, v.place) INTO before
  FROM unnest(recordings) WITH ORDINALITY AS g(
    tenant_id, run_id, execution_id, token, journal, step, generation, forget_number, at)
  LEFT JOIN lease_sums AS s
    ON s.run_key = keys[g.at] AND s.execution_id = g.execution_id AND s.token = g.token
  CROSS JOIN LATERAL unnest(ARRAY[
    s.entries, s.bytes, s.messages, s.input_tokens, s.output_tokens, s.cost_micros
  ]) WITH ORDINALITY AS v(value, place);
  IF entries IS NULL THEN
    RETURN;
  END IF;
  -- 2: it is new. 1: it is there. 0: another one of its name is. NULL: its lease is not, or it is late.
  SELECT
    array_agg(CASE
      WHEN keys[n.at] IS NULL THEN NULL
      WHEN t.seq IS NULL THEN 2
      WHEN t.body::text = n.body AND t.value IS NOT DISTINCT FROM n.value
        AND t.value_media_type IS NOT DISTINCT FROM n.value_media_type THEN 1
      ELSE 0 END ORDER BY n.place),
    array_agg(CASE WHEN t.seq IS NULL THEN us + n.sleep_us ELSE t.until_us END ORDER BY n.place)
  INTO states, ends
  FROM unnest(entries) WITH ORDINALITY AS n(
    at, name, key, mark, number, at_most_once, sleep_us, words, body, value_media_type, value,
    bytes, messages, input_tokens, output_tokens, cost_micros, place)
  LEFT JOIN LATERAL (
    SELECT e.seq, e.body, e.value, e.value_media_type, e.until_us
    FROM journal_entries AS e
    WHERE e.run_key = keys[n.at] AND e.step = recordings[n.at].step AND e.name = n.name
      AND e.journal = recordings[n.at].journal
      AND (e.generation = recordings[n.at].generation OR e.at_most_once = 1)
      AND stepwell_is_named_0008(e.body, n.key, n.mark, n.number)
    LIMIT 1
  ) AS t ON true;
  IF NOT 2 = ANY (states) THEN
    RETURN;
  END IF;
  INSERT INTO journal_entries (
    run_key, step, name, generation, at_most_once, version, written_us, journal, execution_id, until_us, words, body,
    value_media_type, value)
  SELECT r.run_key, g.step, n.name, g.generation, n.at_most_once, r.version, us, g.journal, g.execution_id,
    us + n.sleep_us, n.words, n.body::json, n.value_media_type, n.value
  FROM unnest(entries) WITH ORDINALITY AS n(
    at, name, key, mark, number, at_most_once, sleep_us, words, body, value_media_type, value,
    bytes, messages, input_tokens, output_tokens, cost_micros, place)
  JOIN unnest(recordings) WITH ORDINALITY AS g(
    tenant_id, run_id, execution_id, token, journal, step, generation, forget_number, at) ON g.at = n.at
  JOIN run_rows AS r ON r.run_key = keys[n.at]
  WHERE states[n.place] = 2
  ORDER BY n.place;
  INSERT INTO lease_sums AS here (
    run_key, execution_id, token, entries, bytes, messages, input_tokens, output_tokens, cost_micros)
  SELECT keys[n.at], g.execution_id, g.token, count(*), sum(n.bytes), sum(n.messages), sum(n.input_tokens),
    sum(n.output_tokens), sum(n.cost_micros)
  FROM unnest(entries) WITH ORDINALITY AS n(
    at, name, key, mark, number, at_most_once, sleep_us, words, body, value_media_type, value,
    bytes, messages, input_tokens, output_tokens, cost_micros, place)
  JOIN unnest(recordings) WITH ORDINALITY AS g(
    tenant_id, run_id, execution_id, token, journal, step, generation, forget_number, at) ON g.at = n.at
  WHERE states[n.place] = 2
  GROUP BY 1, 2, 3
  ON CONFLICT (run_key, execution_id) DO UPDATE SET
    token = excluded.token,
    entries = excluded.entries + CASE here.token WHEN excluded.token THEN here.entries ELSE 0 END,
    bytes = excluded.bytes + CASE here.token WHEN excluded.token THEN here.bytes ELSE 0 END,
    messages = excluded.messages + CASE here.token WHEN excluded.token THEN here.messages ELSE 0 END,
    input_tokens = excluded.input_tokens + CASE here.token WHEN excluded.token THEN here.input_tokens ELSE 0 END,
    output_tokens = excluded.output_tokens + CASE here.token WHEN excluded.token THEN here.output_tokens ELSE 0 END,
    cost_micros = excluded.cost_micros + CASE here.token WHEN excluded.token THEN here.cost_micros ELSE 0 END;
END $$;
