-- Differs because: several workers claim at the same time and none waits for another, so rows are locked or
-- skipped; and every statement costs a round trip to the server, so that one statement takes a whole set.

-- name: upsert_deadlines
INSERT INTO deadlines (job_id, due_at)
SELECT given.job_id, given.due_at FROM json_populate_recordset(NULL::deadlines, :rows) AS given
ON CONFLICT (job_id) DO UPDATE SET due_at = excluded.due_at;

-- name: delete_deadlines
MERGE INTO deadlines USING json_array_elements_text(:ids) AS gone (id) ON deadlines.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

-- ---- where lanes begin ----------------------------------------------------------------------

-- name: insert_arrivals
INSERT INTO arrivals (lane, project, key, rank)
SELECT given.lane, given.project, given.key, given.rank
FROM json_populate_recordset(NULL::arrivals, :rows) AS given;

-- Arrivals of transactions that were running when the last ones were read, or began later.
-- name: arrivals_after
SELECT xid::text::bigint AS xid, lane, project, key, rank
FROM arrivals
WHERE xid >= :after::xid8;

-- All arrivals that are not visible yet have this transaction id or a later one.
-- name: arrivals_horizon
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xid;

-- One process at a time; the others skip this and do not wait.
-- name: forget_arrivals
DELETE FROM arrivals
WHERE xid <= (
    SELECT CASE WHEN pg_try_advisory_xact_lock(:kind::integer, 0) THEN (
        SELECT old.xid
        FROM (
            SELECT xid, at FROM arrivals ORDER BY xid LIMIT 10000
        ) AS old
        WHERE old.at < clock_timestamp() - interval '10 minutes'
        ORDER BY old.xid DESC
        LIMIT 1
    ) END
);

-- Every lane with claimable jobs; each is found by one step in the index, and by one more for each leased job before
-- the first one that is not.
-- name: lanes
WITH RECURSIVE found (lane, project, key, rank) AS (
    (
        SELECT lane, project, coalesce(concurrency_key, ''), rank FROM active_jobs
        WHERE lane IS NOT NULL AND NOT asleep AND lease_id IS NULL
        ORDER BY lane, project, coalesce(concurrency_key, ''), rank
        LIMIT 1
    )
    UNION ALL
    SELECT next.lane, next.project, next.key, next.rank
    FROM found CROSS JOIN LATERAL (
        SELECT lane, project, coalesce(concurrency_key, '') AS key, rank FROM active_jobs
        WHERE lane IS NOT NULL AND NOT asleep AND lease_id IS NULL
            AND (lane, project, coalesce(concurrency_key, ''))
                > (found.lane, found.project, found.key)
        ORDER BY lane, project, coalesce(concurrency_key, ''), rank
        LIMIT 1
    ) AS next
)
SELECT lane, project, key, rank FROM found;

-- The lowest rank of each lane; rows that others have locked count, because those may roll back.
-- name: lane_floors
SELECT wanted.lane, wanted.project, wanted.key, first.rank
FROM json_to_recordset(:lanes) AS wanted (lane text, project text, key text, floor bigint)
CROSS JOIN LATERAL (
    SELECT jobs.rank FROM active_jobs AS jobs
    WHERE jobs.lane IS NOT NULL AND NOT jobs.asleep AND jobs.lease_id IS NULL
        AND jobs.lane = wanted.lane AND jobs.project = wanted.project
        AND coalesce(jobs.concurrency_key, '') = wanted.key
        AND jobs.rank >= wanted.floor
    ORDER BY jobs.rank
    LIMIT 1
) AS first;

-- name: next_asleep
SELECT due_at FROM active_jobs WHERE asleep AND due_at >= :floor ORDER BY due_at LIMIT 1;

-- A limited number, oldest first, so that a claim stays short when many jobs become due together.
-- name: due_asleep
SELECT id, lane, project, coalesce(concurrency_key, '') AS key, rank FROM active_jobs
WHERE asleep AND due_at >= :floor AND due_at <= :now
ORDER BY due_at
LIMIT 5000
FOR UPDATE SKIP LOCKED;

-- name: wake_jobs
MERGE INTO active_jobs USING json_array_elements_text(:ids) AS due (id) ON active_jobs.id = due.id
WHEN MATCHED THEN UPDATE SET asleep = false
WHEN NOT MATCHED AND due.id IS NULL THEN INSERT (id) VALUES (due.id);

-- ---- claiming -------------------------------------------------------------------------------

-- First the number of the first jobs in each lane is counted without locks, in the order of `fair_shares.py`. Then
-- that many rows of each lane are locked, without those that another transaction has locked or whose root it is
-- changing. `plain`: see job_sets.py.
-- name: claimable
WITH ready AS MATERIALIZED (
    SELECT wanted.lane, wanted.project, wanted.key, wanted.start, wanted.cost, first.rank
    FROM json_to_recordset(:lanes) AS wanted (
        lane text, project text, key text, floor bigint, start bigint, cost bigint, most bigint
    )
    CROSS JOIN LATERAL (
        SELECT jobs.rank FROM active_jobs AS jobs
        WHERE jobs.lane IS NOT NULL AND NOT jobs.asleep AND jobs.lease_id IS NULL
            AND jobs.lane = wanted.lane AND jobs.project = wanted.project
            AND coalesce(jobs.concurrency_key, '') = wanted.key
            AND jobs.rank >= wanted.floor
        ORDER BY jobs.rank
        LIMIT wanted.most
    ) AS first
),
seen AS MATERIALIZED (
    SELECT lane, project, key, rank
    FROM (
        SELECT lane, project, key, rank, first_value(rank) OVER own AS floor,
            start + cost * (row_number() OVER own - 1) AS at
        FROM ready
        WINDOW own AS (PARTITION BY project ORDER BY rank)
    ) AS ordered
    ORDER BY at, floor, project, rank
    LIMIT :limit
),
share AS MATERIALIZED (
    SELECT lane, project, key, min(rank) AS floor, count(*) AS most
    FROM seen
    GROUP BY lane, project, key
)
SELECT free.id, free.intent, free.project, free.concurrency_key, free.plain, free.rank, free.root_id
FROM share CROSS JOIN LATERAL (
    SELECT ready.id, ready.intent, ready.project, ready.concurrency_key, ready.rank, ready.root_id,
        CASE
            WHEN ready.version <> 1 OR ready.parent_job_id IS NOT NULL OR ready.not_before <> 0 THEN NULL
            WHEN ready.task_id IS NULL THEN ready.options
            WHEN root.job_id = ready.id THEN root.plain || ready.options || ']'
        END AS plain
    FROM (
        SELECT jobs.id, jobs.intent, jobs.project, jobs.concurrency_key, jobs.rank, jobs.root_id, jobs.task_id,
            jobs.parent_job_id, jobs.version, jobs.not_before, jobs.options
        FROM active_jobs AS jobs
        WHERE jobs.lane IS NOT NULL AND NOT jobs.asleep AND jobs.lease_id IS NULL
            AND jobs.lane = share.lane AND jobs.project = share.project
            AND coalesce(jobs.concurrency_key, '') = share.key
            AND jobs.rank >= share.floor
        ORDER BY jobs.rank
        FOR UPDATE SKIP LOCKED
    ) AS ready
    CROSS JOIN LATERAL (
        SELECT NULL AS plain, NULL AS job_id WHERE ready.root_id = ready.id
        UNION ALL
        SELECT task.plain, task.job_id FROM (
            SELECT active_tasks.job_id, CASE
                WHEN active_tasks.version = 2 AND active_tasks.parent_id IS NULL
                    AND active_tasks.depends_on = '[]' AND active_tasks.budget IS NULL
                THEN '["' || active_tasks.lifecycle || '",' || active_tasks.options || ','
            END AS plain
            FROM active_tasks
            WHERE active_tasks.id = ready.root_id AND ready.root_id <> ready.id
            FOR UPDATE SKIP LOCKED
        ) AS task
        UNION ALL
        SELECT NULL, NULL FROM (
            SELECT active_jobs.id FROM active_jobs
            WHERE active_jobs.id = ready.root_id AND ready.root_id <> ready.id
            FOR UPDATE SKIP LOCKED
        ) AS job
        UNION ALL
        SELECT NULL, NULL FROM (
            SELECT ended_tasks.id FROM ended_tasks
            WHERE ended_tasks.id = ready.root_id AND ready.root_id <> ready.id
            FOR UPDATE SKIP LOCKED
        ) AS task
        UNION ALL
        SELECT NULL, NULL FROM (
            SELECT ended_jobs.id FROM ended_jobs
            WHERE ended_jobs.id = ready.root_id AND ready.root_id <> ready.id
            FOR UPDATE SKIP LOCKED
        ) AS job
        UNION ALL
        SELECT NULL, NULL
        WHERE NOT EXISTS (SELECT FROM tasks WHERE tasks.id = ready.root_id)
            AND NOT EXISTS (SELECT FROM jobs WHERE jobs.id = ready.root_id)
        LIMIT 1
    ) AS root
    LIMIT share.most
) AS free;

-- ---- limits and leases ----------------------------------------------------------------------

-- name: running_by_intent
SELECT jobs.intent, count(*) AS running
FROM leases
CROSS JOIN LATERAL unnest(leases.jobs) AS leased (id)
CROSS JOIN LATERAL (
    SELECT intent, lease_id FROM active_jobs WHERE active_jobs.id = leased.id OFFSET 0
) AS jobs
WHERE leases.until > 0 AND jobs.lease_id = leases.id
    AND jobs.intent = ANY (ARRAY(SELECT json_array_elements_text(:names)))
GROUP BY jobs.intent;

-- name: running_by_project
SELECT jobs.project, count(*) AS running
FROM leases
CROSS JOIN LATERAL unnest(leases.jobs) AS leased (id)
CROSS JOIN LATERAL (
    SELECT project, lease_id FROM active_jobs WHERE active_jobs.id = leased.id OFFSET 0
) AS jobs
WHERE leases.until > 0 AND jobs.lease_id = leases.id
    AND jobs.project = ANY (ARRAY(SELECT json_array_elements_text(:names)))
GROUP BY jobs.project;

-- name: running_by_key
SELECT jobs.concurrency_key, count(*) AS running
FROM leases
CROSS JOIN LATERAL unnest(leases.jobs) AS leased (id)
CROSS JOIN LATERAL (
    SELECT concurrency_key, lease_id FROM active_jobs WHERE active_jobs.id = leased.id OFFSET 0
) AS jobs
WHERE leases.until > 0 AND jobs.lease_id = leases.id
    AND jobs.concurrency_key = ANY (ARRAY(SELECT json_array_elements_text(:names)))
GROUP BY jobs.concurrency_key;

-- name: insert_leases
INSERT INTO leases (id, worker, until, held, jobs)
SELECT given.id, given.worker, given.until, cardinality(given.jobs), given.jobs
FROM json_to_recordset(:rows) AS given (id bigint, worker text, until bigint, jobs text[]);

-- Leases of jobs that end, or that are not leased any more after the next statements. The rows go through JSON,
-- because the server expects more of them then, and looks each lease up by its key.
-- name: release_leases
WITH released AS MATERIALIZED (
    SELECT jobs.lease_id, count(*) AS jobs
    FROM json_array_elements_text(:ids) AS given (id)
    CROSS JOIN LATERAL (
        SELECT lease_id FROM active_jobs WHERE active_jobs.id = given.id AND lease_id IS NOT NULL OFFSET 0
    ) AS jobs
    GROUP BY jobs.lease_id
    ORDER BY jobs.lease_id
)
MERGE INTO leases USING json_to_recordset((SELECT json_agg(released) FROM released))
    AS released (lease_id bigint, jobs integer)
ON leases.id = released.lease_id
WHEN MATCHED AND leases.held > released.jobs THEN UPDATE SET held = leases.held - released.jobs
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND released.lease_id IS NULL THEN INSERT (id) VALUES (NULL);

-- Expired leases, oldest first. A job that has another lease by now is skipped.
-- name: expired_leases
SELECT jobs.id, jobs.fence
FROM leases
CROSS JOIN LATERAL unnest(leases.jobs) AS leased (id)
CROSS JOIN LATERAL (
    SELECT id, fence, lease_id FROM active_jobs WHERE active_jobs.id = leased.id OFFSET 0
) AS jobs
WHERE leases.until <= :now AND jobs.lease_id = leases.id
ORDER BY leases.until
LIMIT :limit;

-- name: shift_all_leases
UPDATE leases SET until = until - :ahead WHERE until > 0;

-- A heartbeat does not wait: a lease that another transaction has locked keeps its time, and it counts as held.
-- name: lock_leases
SELECT free.id
FROM (
    SELECT DISTINCT jobs.lease_id
    FROM json_to_recordset(:rows) AS wanted (job_id text, fence bigint)
    CROSS JOIN LATERAL (
        SELECT lease_id FROM active_jobs
        WHERE active_jobs.id = wanted.job_id AND active_jobs.fence = wanted.fence
            AND active_jobs.worker = :worker AND active_jobs.lease_id IS NOT NULL
        OFFSET 0
    ) AS jobs
    ORDER BY jobs.lease_id
) AS own
CROSS JOIN LATERAL (
    SELECT leases.id FROM leases WHERE leases.id = own.lease_id FOR UPDATE SKIP LOCKED
) AS free;

-- name: held_leases
SELECT jobs.id, jobs.fence, jobs.lease_id, leases.held
FROM json_to_recordset(:rows) AS wanted (job_id text, fence bigint)
CROSS JOIN LATERAL (
    SELECT id, fence, lease_id FROM active_jobs
    WHERE active_jobs.id = wanted.job_id AND active_jobs.fence = wanted.fence
        AND active_jobs.worker = :worker AND active_jobs.lease_id IS NOT NULL
    OFFSET 0
) AS jobs
CROSS JOIN LATERAL (SELECT held FROM leases WHERE leases.id = jobs.lease_id OFFSET 0) AS leases;

-- name: renew_leases
MERGE INTO leases USING json_array_elements_text(:ids) AS held (id) ON leases.id = held.id::bigint
WHEN MATCHED THEN UPDATE SET until = :until
WHEN NOT MATCHED AND held.id IS NULL THEN INSERT (id) VALUES (NULL);

-- Jobs that are renewed without the others of their lease get a lease of their own.
-- name: lock_leased
SELECT free.id, free.lease_id
FROM json_to_recordset(:rows) AS wanted (job_id text, fence bigint)
CROSS JOIN LATERAL (
    SELECT id, lease_id FROM active_jobs
    WHERE active_jobs.id = wanted.job_id AND active_jobs.fence = wanted.fence
        AND active_jobs.worker = :worker AND active_jobs.lease_id IS NOT NULL
    FOR UPDATE SKIP LOCKED
) AS free;

-- Differs because: two keepers must not take the same rows at the same time; SQLite has one writer.
-- name: lock_intake
SELECT id, operation, body, idempotency_key
FROM intake
WHERE error IS NULL
ORDER BY id
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- A transaction that notifies holds a lock of the whole database while it commits. It is one of its own, after the
-- commit of the rows, and need not reach the disk.
-- name: notify
SELECT set_config('synchronous_commit', 'off', true), pg_notify('detent', '');
