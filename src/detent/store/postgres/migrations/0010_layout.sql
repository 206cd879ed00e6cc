-- The rows of an earlier layout are copied, and its tables are replaced by views with the same columns, for lists and
-- for auditors. The log was converted before; in a new database there is nothing to copy.

LOCK TABLE events, tasks, jobs, runs, queue IN ACCESS EXCLUSIVE MODE;

-- Nothing is removed that was not converted.
DO $$
BEGIN
    IF EXISTS (
        SELECT FROM events WHERE position > coalesce((
            SELECT first_position + events - 1 FROM commit_positions
            JOIN commits ON commits.id = commit_positions.commit_id
            ORDER BY first_position DESC LIMIT 1
        ), 0)
    ) THEN
        RAISE 'the log was not converted: run detent db upgrade';
    END IF;
END
$$;

INSERT INTO sequencer_turns (turn, high, position, missing, missing_since)
SELECT 1, commits.id, first_position + events - 1, '{}', '{}'
FROM commit_positions JOIN commits ON commits.id = commit_positions.commit_id
ORDER BY first_position DESC LIMIT 1;
SELECT setval('commit_ids', (high / 1024 + 1) * 1024, false) FROM sequencer_turns;

INSERT INTO tombstones (stream, commits)
SELECT stream, string_agg(commit_id::text, ',' ORDER BY commit_id)
FROM stream_commits
WHERE stream <> '@system'
    AND NOT EXISTS (SELECT FROM tasks WHERE tasks.id = stream_commits.stream)
    AND NOT EXISTS (SELECT FROM jobs WHERE jobs.id = stream_commits.stream)
GROUP BY stream;

INSERT INTO leases (id, worker, until, held, jobs)
SELECT row_number() OVER (ORDER BY job_id), worker, lease_until, 1, ARRAY[job_id]
FROM queue
WHERE worker IS NOT NULL;

INSERT INTO active_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, ''
FROM tasks
WHERE state NOT IN ('done', 'completed', 'cancelled', 'budget_exceeded');

INSERT INTO ended_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, ''
FROM tasks
WHERE state IN ('done', 'completed', 'cancelled', 'budget_exceeded');

INSERT INTO active_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
    payload, commits, run_state, run_attempt, run_fence, run_worker, run_queued_at, run_started_at,
    run_ended_at, run_outcome, run_exit_code, run_error_class, run_error, run_session_id, run_cost,
    run_tokens_in, run_tokens_out, run_progress, run_note, run_reserved, run_reason, lane, due_at,
    asleep, lease_id
)
SELECT
    jobs.id, jobs.project, jobs.state, jobs.state_at, jobs.intent, jobs.priority, jobs.rank,
    jobs.root_id, jobs.task_id, jobs.parent_job_id, jobs.queued_at, jobs.not_before, jobs.attempt,
    jobs.lost, jobs.fence, jobs.nonce, jobs.worker, jobs.runs, jobs.run_id, jobs.cancel_reason,
    jobs.plan_version, jobs.replans, jobs.concurrency_key, jobs.queue_deadline, jobs.job_deadline,
    jobs.error_class, jobs.error, jobs.created_at, jobs.ended_at, jobs.resuming, jobs.failures,
    jobs.plan_wanted, jobs.waited, jobs.result, jobs.options, jobs.version, jobs.payload, '',
    runs.state, runs.attempt, runs.fence, runs.worker, runs.queued_at, runs.started_at,
    runs.ended_at, runs.outcome, runs.exit_code, runs.error_class, runs.error, runs.session_id,
    runs.cost, runs.tokens_in, runs.tokens_out, runs.progress, runs.note, runs.reserved,
    runs.reason, queue.lane, queue.due_at, coalesce(queue.asleep, false), leases.id
FROM jobs LEFT JOIN runs ON runs.id = jobs.run_id AND runs.step IS NULL AND jobs.state = 'running'
LEFT JOIN queue ON queue.job_id = jobs.id
LEFT JOIN leases ON leases.jobs[1] = jobs.id
WHERE jobs.state NOT IN ('completed', 'failed', 'cancelled');

INSERT INTO ended_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
    payload, commits, run_state, run_attempt, run_fence, run_worker, run_queued_at, run_started_at,
    run_ended_at, run_outcome, run_exit_code, run_error_class, run_error, run_session_id, run_cost,
    run_tokens_in, run_tokens_out, run_progress, run_note, run_reserved, run_reason
)
SELECT
    jobs.id, jobs.project, jobs.state, jobs.state_at, jobs.intent, jobs.priority, jobs.rank,
    jobs.root_id, jobs.task_id, jobs.parent_job_id, jobs.queued_at, jobs.not_before, jobs.attempt,
    jobs.lost, jobs.fence, jobs.nonce, jobs.worker, jobs.runs, jobs.run_id, jobs.cancel_reason,
    jobs.plan_version, jobs.replans, jobs.concurrency_key, jobs.queue_deadline, jobs.job_deadline,
    jobs.error_class, jobs.error, jobs.created_at, jobs.ended_at, jobs.resuming, jobs.failures,
    jobs.plan_wanted, jobs.waited, jobs.result, jobs.options, jobs.version, jobs.payload, '',
    runs.state, runs.attempt, runs.fence, runs.worker, runs.queued_at, runs.started_at,
    runs.ended_at, runs.outcome, runs.exit_code, runs.error_class, runs.error, runs.session_id,
    runs.cost, runs.tokens_in, runs.tokens_out, runs.progress, runs.note, runs.reserved, runs.reason
FROM jobs LEFT JOIN runs ON runs.id = jobs.run_id AND runs.step IS NULL
WHERE jobs.state IN ('completed', 'failed', 'cancelled');

INSERT INTO other_runs (
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
)
SELECT
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
FROM runs
WHERE NOT EXISTS (
    SELECT FROM jobs
    WHERE jobs.id = runs.job_id AND jobs.run_id = runs.id AND runs.step IS NULL
        AND jobs.state IN ('running', 'completed', 'failed', 'cancelled')
);

DROP VIEW questions;
DROP FUNCTION blank_events(json);
DROP TABLE events;
DROP TABLE queue;
DROP TABLE runs;
DROP TABLE jobs;
DROP TABLE tasks;


CREATE VIEW tasks AS
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags
FROM active_tasks
UNION ALL
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags
FROM ended_tasks;

CREATE VIEW jobs AS
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
FROM active_jobs
UNION ALL
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
FROM ended_jobs;

-- Runs by their job. The view `runs` has the same rows for lists: it finds running jobs by their leases. A part of
-- `listed_runs` with a condition of its own would be sorted as a whole, so that ended jobs without a run are left out
-- later.
CREATE VIEW job_runs AS
SELECT
    run_id AS id, id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, NULL::text COLLATE "C" AS step, run_started_at
    AS started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM active_jobs WHERE run_state IS NOT NULL
UNION ALL
SELECT
    run_id AS id, id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, NULL::text COLLATE "C" AS step, run_started_at
    AS started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM ended_jobs WHERE run_state IS NOT NULL
UNION ALL
SELECT
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
FROM other_runs;

CREATE VIEW listed_runs AS
SELECT
    run_id AS id, active_jobs.id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, NULL::text COLLATE "C" AS step, run_started_at
    AS started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM leases
JOIN active_jobs ON active_jobs.id = ANY (leases.jobs) AND active_jobs.lease_id = leases.id
UNION ALL
SELECT
    run_id AS id, id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, NULL::text COLLATE "C" AS step, run_started_at
    AS started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM ended_jobs
UNION ALL
SELECT
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
FROM other_runs;

CREATE VIEW runs AS
SELECT
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
FROM listed_runs
WHERE state IS NOT NULL;

CREATE VIEW queue AS
SELECT
    active_jobs.id AS job_id, root_id, project, intent, rank, due_at, concurrency_key,
    CASE WHEN lease_id IS NULL THEN lane ELSE intent END AS lane,
    leases.worker, CASE WHEN lease_id IS NULL THEN 0 ELSE fence END AS fence,
    leases.until AS lease_until
FROM active_jobs LEFT JOIN leases ON leases.id = active_jobs.lease_id
WHERE lane IS NOT NULL;

CREATE VIEW questions AS
SELECT waits.job_id, waits.name, waits.kind, waits.begun_at, waits.step, waits.due_at, waits.detail,
    jobs.project, jobs.intent, jobs.priority, jobs.state
FROM waits JOIN active_jobs AS jobs ON jobs.id = waits.job_id
WHERE waits.kind IN ('question', 'confirmation', 'budget') AND jobs.task_id IS NULL;

-- PostgreSQL cannot read a JSON text with the escape of U+0000. Here it is written as U+007F and 1, and U+007F as
-- U+007F and 0; the second function restores the text of a value.
CREATE FUNCTION commit_json(body text) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN strpos(body, '\u0000') = 0 THEN body ELSE regexp_replace(
        replace(body, chr(127), chr(127) || '0'),
        '(?<!\\)((?:\\\\)*)\\u0000', '\1' || chr(127) || '1', 'g'
    ) END::json
$$;

CREATE FUNCTION commit_text(value json, body text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN strpos(body, '\u0000') = 0 THEN value::text
        ELSE replace(replace(value::text, chr(127) || '1', '\u0000'), chr(127) || '0', chr(127)) END
$$;

-- One stream of a row of a template (see commit_body.py) as a group: the id and the values of the row are filled in.
CREATE FUNCTION filled_group(form json, own json) RETURNS json LANGUAGE sql IMMUTABLE BEGIN ATOMIC
    SELECT (
        '[' || replace((form -> 0)::text, chr(57344) || 'i', own ->> 0) || ',' || (form -> 1)::text || ','
        || (form -> 2)::text || ',[' || string_agg(
            '[' || (entries.entry -> 0)::text || ',' || (entries.entry -> 1)::text || ','
            || replace((entries.entry -> 2)::text, chr(57344) || 'i', own ->> 0) || ','
            || (entries.entry -> 3)::text || ',' || replace(
                replace(
                    replace(entries.entry ->> 4, chr(57344) || 'i', own ->> 0),
                    '"' || chr(57344) || 'w"', coalesce((own -> 2)::text, 'null')
                ),
                '"' || chr(57344) || 'v"', coalesce((own -> 1)::text, 'null')
            ) || ']', ',' ORDER BY entries.place
        ) || ']]'
    )::json
    FROM json_array_elements(form -> 3) WITH ORDINALITY AS entries (entry, place);
END;

-- The parts of a body. The rows of templates that have one of the given streams are groups; all rows, if it is NULL.
CREATE FUNCTION commit_parts(body text, streams text[]) RETURNS TABLE (place bigint, part json)
LANGUAGE sql IMMUTABLE BEGIN ATOMIC
    SELECT row_number() OVER (ORDER BY parts.place, divided.place), divided.part
    FROM json_array_elements(commit_json(body)) WITH ORDINALITY AS parts (part, place)
    CROSS JOIN LATERAL (
        SELECT '{}'::bigint[] AS place, parts.part WHERE json_typeof(parts.part -> 0) <> 'array'
        UNION ALL
        SELECT ARRAY[own.place, forms.place], filled_group(forms.form, own.own)
        FROM json_array_elements(CASE WHEN json_typeof(parts.part -> 0) = 'array' THEN parts.part -> 1 END)
            WITH ORDINALITY AS own (own, place)
        CROSS JOIN LATERAL json_array_elements(parts.part -> 0) WITH ORDINALITY AS forms (form, place)
        WHERE streams IS NULL OR EXISTS (
            SELECT FROM json_array_elements(parts.part -> 0) AS each (form)
            WHERE replace(each.form ->> 0, chr(57344) || 'i', own.own ->> 0) = ANY (streams)
        )
        UNION ALL
        SELECT ARRAY[min(kept.place)],
            ('[' || (parts.part -> 0)::text || ',[' || string_agg(kept.own::text, ',' ORDER BY kept.place) || ']]')::json
        FROM (
            SELECT own.own, own.place, own.place - row_number() OVER (ORDER BY own.place) AS island
            FROM json_array_elements(CASE WHEN json_typeof(parts.part -> 0) = 'array' THEN parts.part -> 1 END)
                WITH ORDINALITY AS own (own, place)
            WHERE streams IS NOT NULL AND NOT EXISTS (
                SELECT FROM json_array_elements(parts.part -> 0) AS each (form)
                WHERE replace(each.form ->> 0, chr(57344) || 'i', own.own ->> 0) = ANY (streams)
            )
        ) AS kept
        GROUP BY kept.island
    ) AS divided (place, part);
END;

-- The events of sequenced commits.
CREATE VIEW events AS
SELECT
    first_position + row_number() OVER (
        PARTITION BY commits.id ORDER BY streams.place, entries.place
    ) - 1 AS position,
    (streams.part ->> 0) COLLATE "C" AS stream,
    (streams.part ->> 1)::integer + entries.place::integer - 1 AS version,
    (streams.part ->> 2) COLLATE "C" AS project,
    (entries.entry ->> 0) COLLATE "C" AS name, (entries.entry ->> 1)::integer AS schema,
    (entries.entry ->> 2) COLLATE "C" AS subject,
    coalesce((entries.entry ->> 5)::bigint, commits.at) AS at,
    (entries.entry ->> 3) COLLATE "C" AS actor,
    CASE WHEN (entries.entry ->> 6) IS NULL THEN commit_text(entries.entry -> 4, commits.body) ELSE '' END
        COLLATE "C" AS data,
    decode(entries.entry ->> 6, 'hex') AS digest
FROM commit_positions
JOIN commits ON commits.id = commit_positions.commit_id
CROSS JOIN LATERAL commit_parts(commits.body, NULL) AS streams
CROSS JOIN LATERAL json_array_elements(streams.part -> 3) WITH ORDINALITY AS entries (entry, place);

-- ---- the tags of tasks ----------------------------------------------------------------------

-- A task that ends is inserted into the one table and then deleted from the other: its tags stay.
CREATE OR REPLACE FUNCTION keep_task_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' OR TG_OP = 'DELETE' AND NOT EXISTS (
        SELECT FROM active_tasks WHERE id = OLD.id UNION ALL SELECT FROM ended_tasks WHERE id = OLD.id
    ) THEN
        DELETE FROM task_tags
        USING json_array_elements_text(OLD.tags::json) AS named (tag)
        WHERE task_tags.tag = named.tag AND at = OLD.created_at AND task_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO task_tags (tag, at, task_id)
        SELECT DISTINCT named.tag, NEW.created_at, NEW.id
        FROM json_array_elements_text(NEW.tags::json) AS named (tag)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER task_tags_of_a_new_task AFTER INSERT ON active_tasks
    FOR EACH ROW WHEN (NEW.tags <> '[]') EXECUTE FUNCTION keep_task_tags();
CREATE TRIGGER task_tags_of_an_edited_task AFTER UPDATE OF tags ON active_tasks
    FOR EACH ROW WHEN (OLD.tags <> NEW.tags) EXECUTE FUNCTION keep_task_tags();
CREATE TRIGGER task_tags_of_a_deleted_task AFTER DELETE ON active_tasks
    FOR EACH ROW WHEN (OLD.tags <> '[]') EXECUTE FUNCTION keep_task_tags();
CREATE TRIGGER task_tags_of_a_new_task AFTER INSERT ON ended_tasks
    FOR EACH ROW WHEN (NEW.tags <> '[]') EXECUTE FUNCTION keep_task_tags();
CREATE TRIGGER task_tags_of_an_edited_task AFTER UPDATE OF tags ON ended_tasks
    FOR EACH ROW WHEN (OLD.tags <> NEW.tags) EXECUTE FUNCTION keep_task_tags();
CREATE TRIGGER task_tags_of_a_deleted_task AFTER DELETE ON ended_tasks
    FOR EACH ROW WHEN (OLD.tags <> '[]') EXECUTE FUNCTION keep_task_tags();

-- ---- lanes ----------------------------------------------------------------------------------

-- Which lanes got jobs, and from which rank on. Claimers remember the lowest rank of each lane; they read here the
-- rows of transactions that may have been running when they read last. An empty lane is that of jobs that are asleep,
-- and its rank is the time at which they are due. Rows are of use for some minutes.
DROP TABLE arrivals;
CREATE TABLE arrivals (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    lane text COLLATE "C" NOT NULL,
    project text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    rank bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX arrivals_by_transaction ON arrivals (xid);

-- ---- functions ------------------------------------------------------------------------------

-- Assigns positions to the commits that are visible and have none, in the order of their ids; returns the last
-- position. The commits of one stream are in order, because a writer allocates its commit id while it holds the locks
-- of its streams. It is called as a statement of its own, so that a client that stops cannot keep the lock. In a
-- function each statement has a snapshot of its own: the second one sees the turns before it.
CREATE FUNCTION sequence_commits() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    last sequencer_turns%ROWTYPE;
    ids bigint[];
    highest bigint;
    final bigint;
    oldest bigint;
    own_xid bigint;
BEGIN
    SELECT * INTO last FROM sequencer_turns ORDER BY turn DESC LIMIT 1;
    IF current_setting('transaction_read_only') = 'on' OR NOT (
        EXISTS (SELECT FROM commits WHERE id > coalesce(last.high, 0))
        OR EXISTS (
            SELECT FROM unnest(last.missing) AS base
            CROSS JOIN LATERAL (
                SELECT FROM commits WHERE id >= base AND id < base + 1024 LIMIT 1
            ) AS late
        )
    ) THEN
        RETURN coalesce(last.position, 0);
    END IF;
    PERFORM pg_advisory_xact_lock(1685352052, 0);
    SELECT * INTO last FROM sequencer_turns ORDER BY turn DESC LIMIT 1;
    IF NOT FOUND THEN
        SELECT 0, 0, 0, '{}', '{}' INTO last;
    END IF;
    -- The oldest running transaction is read before the commits, and this transaction gets its id after them: a
    -- transaction that ends in between is still waited for, and its id is lower.
    oldest := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    SELECT array_agg(id ORDER BY id) INTO ids FROM (
        SELECT id FROM commits WHERE id > last.high
        UNION ALL
        SELECT late.id FROM unnest(last.missing) AS base
        CROSS JOIN LATERAL (
            SELECT id FROM commits WHERE id >= base AND id < base + 1024 OFFSET 0
        ) AS late
    ) AS visible;
    final := last.position;
    IF ids IS NOT NULL THEN
        own_xid := pg_current_xact_id()::text::bigint;
        highest := greatest(last.high, ids[cardinality(ids)]);
        WITH numbered AS MATERIALIZED (
            SELECT commits.id, commits.events, sum(commits.events) OVER (ORDER BY commits.id) AS upto
            FROM unnest(ids) AS wanted (id)
            CROSS JOIN LATERAL (SELECT id, events FROM commits WHERE commits.id = wanted.id OFFSET 0) AS commits
        ),
        placed AS (
            INSERT INTO commit_positions (first_position, commit_id)
            SELECT last.position + upto - events + 1, id FROM numbered
        )
        SELECT last.position + max(upto) INTO final FROM numbered;
        -- In groups, because a comparison of each id with all the others takes hours after many commits.
        INSERT INTO sequencer_turns (turn, high, position, missing, missing_since)
        SELECT last.turn + 1, highest, final,
            coalesce(array_agg(gap.id ORDER BY gap.id), '{}'),
            coalesce(array_agg(gap.since ORDER BY gap.id), '{}')
        FROM (
            SELECT place.id, max(place.since) AS since
            FROM (
                SELECT known.id, known.since, false AS is_visible
                FROM unnest(last.missing, last.missing_since) AS known (id, since)
                WHERE known.since > oldest
                UNION ALL
                SELECT id, own_xid, false
                FROM generate_series((last.high / 1024 + 1) * 1024, highest / 1024 * 1024, 1024) AS id
                UNION ALL
                SELECT id, NULL, true FROM unnest(ids) AS id
            ) AS place
            GROUP BY place.id
            HAVING NOT bool_or(place.is_visible)
        ) AS gap;
        IF last.turn % 64 = 0 THEN
            DELETE FROM sequencer_turns WHERE turn < last.turn;
        END IF;
    END IF;
    -- The lock ends with the round trip. If its end does not arrive, because the network failed or the client has
    -- stopped, the server ends the session; before version 17 other processes do (`end_silent`).
    IF current_setting('server_version_num')::integer >= 170000 THEN
        PERFORM set_config('transaction_timeout', '5000', true);
    END IF;
    RETURN final;
END;
$$;
REVOKE ALL ON FUNCTION sequence_commits() FROM PUBLIC;

-- The only way to change the log: the data of events of deleted streams is replaced by digests; tombstones keep
-- theirs. It runs with the rights of its owner, so that the role of detent needs no right to update the log. The text
-- of all other events stays as it is. Each given row has a commit, a stream, the version of an event, and its digest.
CREATE FUNCTION blank_events(given json) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    WITH blank AS MATERIALIZED (
        SELECT given.commit, given.stream, given.version, given.digest
        FROM json_to_recordset(given) AS given (
            commit bigint, stream text, version integer, digest text
        )
        WHERE given.digest ~ '^[0-9a-f]{64}$'
            AND NOT EXISTS (SELECT FROM active_tasks WHERE active_tasks.id = given.stream)
            AND NOT EXISTS (SELECT FROM ended_tasks WHERE ended_tasks.id = given.stream)
            AND NOT EXISTS (SELECT FROM active_jobs WHERE active_jobs.id = given.stream)
            AND NOT EXISTS (SELECT FROM ended_jobs WHERE ended_jobs.id = given.stream)
    ),
    changed AS MATERIALIZED (
        SELECT changing.id, '[' || string_agg(changing.part, ',' ORDER BY changing.place) || ']' AS body
        FROM (
            SELECT commits.id, streams.place, CASE
                WHEN json_typeof(streams.part -> 0) = 'array' OR NOT EXISTS (
                    SELECT FROM blank
                    WHERE blank.commit = commits.id AND blank.stream = streams.part ->> 0
                ) THEN commit_text(streams.part, commits.body)
                ELSE '[' || (streams.part -> 0)::text || ',' || (streams.part -> 1)::text || ','
                    || (streams.part -> 2)::text || ',[' || (
                    SELECT string_agg(
                        CASE
                            WHEN blank.digest IS NULL OR entries.entry ->> 6 IS NOT NULL
                                OR entries.entry ->> 0 IN ('task_deleted', 'job_deleted')
                            THEN commit_text(entries.entry, commits.body)
                            ELSE '[' || (entries.entry -> 0)::text || ',' || (entries.entry -> 1)::text
                                || ',' || (entries.entry -> 2)::text || ','
                                || (entries.entry -> 3)::text || ',null,'
                                || coalesce((entries.entry -> 5)::text, 'null')
                                || ',"' || blank.digest || '"]'
                        END, ',' ORDER BY entries.place
                    )
                    FROM json_array_elements(streams.part -> 3) WITH ORDINALITY AS entries (entry, place)
                    LEFT JOIN blank ON blank.commit = commits.id AND blank.stream = streams.part ->> 0
                        AND blank.version = (streams.part ->> 1)::integer + entries.place - 1
                ) || ']]'
            END AS part
            FROM (SELECT DISTINCT commit FROM blank) AS wanted
            CROSS JOIN LATERAL (SELECT * FROM commits WHERE commits.id = wanted.commit OFFSET 0) AS commits
            CROSS JOIN LATERAL commit_parts(
                commits.body, ARRAY(SELECT blank.stream FROM blank WHERE blank.commit = commits.id)
            ) AS streams
        ) AS changing
        GROUP BY changing.id
    )
    MERGE INTO commits USING changed ON commits.id = changed.id
    WHEN MATCHED THEN UPDATE SET body = changed.body
    WHEN NOT MATCHED AND changed.id IS NULL THEN INSERT (id) VALUES (changed.id)
$$;
REVOKE ALL ON FUNCTION blank_events(json) FROM PUBLIC;

-- With the rights of their owner they must find these tables and no others of the same names.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION sequence_commits() SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION blank_events(json) SET search_path = %I, pg_temp', current_schema());
END
$$;
-- A query plan from when a table was small reads the whole table, and it is kept.
ALTER FUNCTION sequence_commits() SET enable_seqscan = off;
ALTER FUNCTION sequence_commits() SET enable_bitmapscan = off;
ALTER FUNCTION sequence_commits() SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION blank_events(json) SET enable_seqscan = off;
