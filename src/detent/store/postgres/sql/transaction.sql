-- Differs because: SQLite has one writer and a clock in its process; here a transaction sets how it is planned
-- and how long it may be idle, reads the server's time, and locks what it is going to change.

-- A query plan from when a table was small reads the whole table, and it is kept. These settings end with the
-- transaction, so that they do not stay on the connection.
-- name: begin_reading
SELECT
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),
    set_config('enable_memoize', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('jit', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
    (SELECT value FROM system_state WHERE name = 'clock') AS clock,
    (SELECT at FROM commits ORDER BY id DESC LIMIT 1) AS last_at,
    (SELECT id FROM commits ORDER BY id DESC LIMIT 1) AS last_commit;

-- A process that stops in the middle of a write holds its locks for a limited time: between two round trips by
-- the first of these timeouts, within one by the last, which PostgreSQL has from version 17 on. No timeout ends a
-- session whose server process is stopped: the second one limits how long others wait for its locks.
-- name: begin_writing
SELECT
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),
    set_config('enable_memoize', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('jit', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true),
    set_config('idle_in_transaction_session_timeout', :idle_ms, true),
    set_config('statement_timeout', :hold_ms, true),
    CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN
        set_config('transaction_timeout', :hold_ms, true)
    END AS hold,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
    (SELECT value FROM system_state WHERE name = 'clock') AS clock,
    (SELECT at FROM commits ORDER BY id DESC LIMIT 1) AS last_at,
    (SELECT id FROM commits ORDER BY id DESC LIMIT 1) AS last_commit;

-- name: standby_position
SELECT pg_is_in_recovery() AS standby, coalesce((
    SELECT position FROM sequencer_turns ORDER BY turn DESC LIMIT 1
), 0) AS position;

-- The first eight digits of the name are the timeline.
-- name: log_file
SELECT pg_walfile_name(pg_current_wal_lsn()) AS name;

-- Restarts the time limit of a long transaction; 0 removes the limit.
-- name: hold_on
SELECT
    set_config('statement_timeout', :hold_ms, true),
    CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN
        set_config('transaction_timeout', '0', true)
    END AS stopped,
    CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN
        set_config('transaction_timeout', :hold_ms, true)
    END AS started;

-- PostgreSQL 15 and 16 have no timeout for a client that has sent a part of a round trip and stopped: the session is
-- active and waits for the rest with its locks. Such sessions of the same role are ended by the other processes.
-- name: end_silent
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user
    AND state = 'active' AND wait_event = 'ClientRead' AND query NOT ILIKE 'copy%'
    AND query_start < clock_timestamp() - :silent_ms::integer * interval '1 millisecond'
    AND current_setting('server_version_num')::integer < 170000;

-- Lists use the server's default settings for planning, without bitmap scans, which are sorted.
-- name: plan_freely
SELECT
    set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('enable_material', 'on', true);

-- name: plan_by_key
SELECT
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true);

-- Every task tree has one root. A writer locks the row of the root: that of the named tasks and jobs, of the
-- tasks above them, and of the tasks that depend on one of these. Roots never change, so they are found without
-- a lock; all writers lock them in the same order, tasks by id, then jobs by id. A root that another transaction
-- moved to the other table meanwhile is found and not locked: the next statement sees it there. Until then the roots
-- after it are unlocked, because a writer that waits for an earlier root with a later one is out of the order.
-- name: lock_roots
WITH RECURSIVE job AS MATERIALIZED (
    SELECT jobs.id, jobs.task_id, jobs.root_id
    FROM json_array_elements_text(:jobs) AS wanted (id)
    CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = wanted.id OFFSET 0) AS jobs
),
task (id, parent_id, root_id) AS (
    SELECT tasks.id, tasks.parent_id, tasks.root_id
    FROM (
        SELECT value AS id FROM json_array_elements_text(:tasks)
        UNION
        SELECT task_id FROM job
    ) AS wanted
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id = wanted.id OFFSET 0) AS tasks
    UNION
    SELECT tasks.id, tasks.parent_id, tasks.root_id
    FROM task
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id = task.parent_id OFFSET 0) AS tasks
),
of_tasks AS (
    SELECT root_id AS id FROM task
    UNION
    SELECT tasks.root_id
    FROM task
    CROSS JOIN LATERAL (
        SELECT * FROM dependencies WHERE dependencies.depends_on = task.id OFFSET 0
    ) AS dependencies
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id = dependencies.task_id OFFSET 0) AS tasks
    UNION
    SELECT root_id FROM job WHERE root_id <> id
),
of_jobs AS (
    SELECT DISTINCT root_id AS id FROM job WHERE task_id IS NULL
),
locked_tasks AS MATERIALIZED (
    SELECT root.id, active.id AS active, ended.id AS ended
    FROM (SELECT id FROM of_tasks ORDER BY id) AS root
    LEFT JOIN LATERAL (
        SELECT active_tasks.id FROM active_tasks WHERE active_tasks.id = root.id FOR UPDATE
    ) AS active ON true
    LEFT JOIN LATERAL (
        SELECT ended_tasks.id FROM ended_tasks
        WHERE ended_tasks.id = root.id AND active.id IS NULL FOR UPDATE
    ) AS ended ON true
),
locked_jobs AS MATERIALIZED (
    SELECT root.id, active.id AS active, ended.id AS ended
    FROM (SELECT id FROM of_jobs ORDER BY id) AS root
    LEFT JOIN LATERAL (
        SELECT active_jobs.id FROM active_jobs WHERE active_jobs.id = root.id FOR UPDATE
    ) AS active ON true
    LEFT JOIN LATERAL (
        SELECT ended_jobs.id FROM ended_jobs
        WHERE ended_jobs.id = root.id AND active.id IS NULL FOR UPDATE
    ) AS ended ON true
)
SELECT id, coalesce(active, ended) IS NOT NULL AS locked FROM locked_tasks
WHERE coalesce(active, ended) IS NOT NULL
    OR EXISTS (SELECT FROM tasks WHERE tasks.id = locked_tasks.id)
UNION ALL
SELECT id, coalesce(active, ended) IS NOT NULL FROM locked_jobs
WHERE coalesce(active, ended) IS NOT NULL
    OR EXISTS (SELECT FROM jobs WHERE jobs.id = locked_jobs.id);

-- name: before_roots
SAVEPOINT roots;

-- name: unlock_roots
ROLLBACK TO SAVEPOINT roots;

-- Roots that are needed later are out of the order, so they are locked without waiting.
-- name: lock_late
SELECT wanted.id, coalesce(active.id, ended.id) IS NOT NULL AS locked
FROM json_array_elements_text(:ids) AS wanted (id)
LEFT JOIN LATERAL (
    SELECT active_tasks.id FROM active_tasks WHERE active_tasks.id = wanted.id FOR UPDATE NOWAIT
) AS active ON true
LEFT JOIN LATERAL (
    SELECT ended_tasks.id FROM ended_tasks
    WHERE ended_tasks.id = wanted.id AND active.id IS NULL FOR UPDATE NOWAIT
) AS ended ON true
WHERE coalesce(active.id, ended.id) IS NOT NULL
    OR EXISTS (SELECT FROM tasks WHERE tasks.id = wanted.id);

-- Keeps the number of steps that hold a resource unchanged until the end. Without resources there is no wait.
-- name: lock_resources
SELECT pg_advisory_xact_lock(:kind::integer, 0) WHERE EXISTS (SELECT FROM resources);

-- Advisory locks for objects without a row: their numbers, in order.
-- name: lock_numbers
SELECT pg_advisory_xact_lock(:kind::integer, number::integer)
FROM json_array_elements_text(:numbers) AS wanted (number);

-- name: share_numbers
SELECT pg_advisory_xact_lock_shared(:kind::integer, number::integer)
FROM json_array_elements_text(:numbers) AS wanted (number);
