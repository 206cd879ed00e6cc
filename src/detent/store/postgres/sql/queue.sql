-- Differs because: several workers claim at the same time and none waits for another, so rows are locked or
-- skipped; and every statement costs a round trip to the server, so that one statement takes a whole set.

-- name: upsert_queue
INSERT INTO queue (
    job_id, root_id, project, intent, rank, due_at, concurrency_key, lane, asleep, fence
)
SELECT
    given.job_id, given.root_id, given.project, given.intent, given.rank, given.due_at,
    given.concurrency_key, given.lane, given.asleep, 0
FROM json_populate_recordset(NULL::queue, :rows) AS given
ON CONFLICT (job_id) DO UPDATE SET
    rank = excluded.rank, due_at = excluded.due_at, lane = excluded.lane, asleep = excluded.asleep,
    worker = NULL, fence = 0, lease_until = NULL;

-- A leased job is in the lane of its intent; its lane is written again when it is queued again.
-- name: lease_queue
MERGE INTO queue USING json_populate_recordset(NULL::queue, :rows) AS given
ON queue.job_id = given.job_id
WHEN MATCHED THEN UPDATE SET
    worker = given.worker, fence = given.fence, lease_until = given.lease_until,
    lane = queue.intent
WHEN NOT MATCHED AND given.job_id IS NULL THEN INSERT (job_id) VALUES (given.job_id);

-- name: delete_queue
MERGE INTO queue USING json_array_elements_text(:ids) AS gone (id) ON queue.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

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
FROM json_populate_recordset(
    NULL::arrivals, coalesce(:rows, current_setting('detent.arrivals')::json)
) AS given;

-- name: arrivals_after
SELECT max(id) AS id, lane, project, key, min(rank) AS rank
FROM arrivals
WHERE id > :after
GROUP BY lane, project, key;

-- name: last_arrival
SELECT coalesce(max(id), 0) AS id FROM arrivals;

-- One process at a time; the others skip this and do not wait.
-- name: forget_arrivals
DELETE FROM arrivals
WHERE id <= (
    SELECT CASE WHEN pg_try_advisory_xact_lock(:kind::integer, 0) THEN (
        SELECT max(old.id)
        FROM (
            SELECT id FROM arrivals WHERE at < clock_timestamp() - interval '10 minutes'
            ORDER BY id
            LIMIT 10000
        ) AS old
    ) END
);

-- Every lane with claimable jobs; each is found by one step in the index.
-- name: lanes
WITH RECURSIVE found (lane, project, key, rank) AS (
    (
        SELECT lane, project, coalesce(concurrency_key, ''), rank FROM queue
        WHERE worker IS NULL AND NOT asleep
        ORDER BY lane, project, coalesce(concurrency_key, ''), rank
        LIMIT 1
    )
    UNION ALL
    SELECT next.lane, next.project, next.key, next.rank
    FROM found CROSS JOIN LATERAL (
        SELECT lane, project, coalesce(concurrency_key, '') AS key, rank FROM queue
        WHERE worker IS NULL AND NOT asleep
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
    SELECT queue.rank FROM queue
    WHERE queue.worker IS NULL AND NOT queue.asleep
        AND queue.lane = wanted.lane AND queue.project = wanted.project
        AND coalesce(queue.concurrency_key, '') = wanted.key
        AND queue.rank >= wanted.floor
    ORDER BY queue.rank
    LIMIT 1
) AS first;

-- name: next_asleep
SELECT due_at FROM queue WHERE asleep AND due_at >= :floor ORDER BY due_at LIMIT 1;

-- A limited number, oldest first, so that a claim stays short when many jobs become due together.
-- name: due_asleep
SELECT job_id, lane, project, coalesce(concurrency_key, '') AS key, rank FROM queue
WHERE asleep AND due_at >= :floor AND due_at <= :now
ORDER BY due_at
LIMIT 5000
FOR UPDATE SKIP LOCKED;

-- name: wake_queue
MERGE INTO queue USING json_array_elements_text(:ids) AS due (id) ON queue.job_id = due.id
WHEN MATCHED THEN UPDATE SET asleep = false
WHEN NOT MATCHED AND due.id IS NULL THEN INSERT (job_id) VALUES (due.id);

-- ---- claiming -------------------------------------------------------------------------------

-- First the number of the lowest ranks in each lane is counted without locks. Then that many rows of each lane are
-- locked, without those that another transaction has locked or whose root it is changing.
-- name: claimable
WITH seen AS MATERIALIZED (
    SELECT wanted.lane, wanted.project, wanted.key, ready.rank
    FROM json_to_recordset(:lanes) AS wanted (lane text, project text, key text, floor bigint)
    CROSS JOIN LATERAL (
        SELECT queue.rank FROM queue
        WHERE queue.worker IS NULL AND NOT queue.asleep
            AND queue.lane = wanted.lane AND queue.project = wanted.project
            AND coalesce(queue.concurrency_key, '') = wanted.key
            AND queue.rank >= wanted.floor
        ORDER BY queue.rank
        LIMIT :limit
    ) AS ready
    ORDER BY ready.rank
    LIMIT :limit
),
share AS MATERIALIZED (
    SELECT lane, project, key, min(rank) AS floor, count(*) AS most
    FROM seen
    GROUP BY lane, project, key
)
SELECT free.job_id, free.intent, free.project, free.concurrency_key, free.rank, free.root_id
FROM share CROSS JOIN LATERAL (
    SELECT ready.job_id, ready.intent, ready.project, ready.concurrency_key, ready.rank,
        ready.root_id
    FROM (
        SELECT queue.job_id, queue.intent, queue.project, queue.concurrency_key, queue.rank,
            queue.root_id
        FROM queue
        WHERE queue.worker IS NULL AND NOT queue.asleep
            AND queue.lane = share.lane AND queue.project = share.project
            AND coalesce(queue.concurrency_key, '') = share.key
            AND queue.rank >= share.floor
        ORDER BY queue.rank
        FOR UPDATE SKIP LOCKED
    ) AS ready
    CROSS JOIN LATERAL (
        SELECT task.id FROM (
            SELECT tasks.id FROM tasks
            WHERE tasks.id = ready.root_id AND ready.root_id <> ready.job_id
            FOR UPDATE SKIP LOCKED
        ) AS task
        UNION ALL
        SELECT job.id FROM (
            SELECT jobs.id FROM jobs WHERE jobs.id = ready.root_id FOR UPDATE SKIP LOCKED
        ) AS job
        UNION ALL
        SELECT ready.root_id
        WHERE NOT EXISTS (SELECT FROM tasks WHERE tasks.id = ready.root_id)
            AND NOT EXISTS (SELECT FROM jobs WHERE jobs.id = ready.root_id)
        LIMIT 1
    ) AS root
    LIMIT share.most
) AS free;

-- ---- limits and leases ----------------------------------------------------------------------

-- name: running_by_intent
SELECT intent, count(*) AS running
FROM queue
WHERE worker IS NOT NULL AND intent = ANY (ARRAY(SELECT json_array_elements_text(:names)))
GROUP BY intent;

-- name: running_by_project
SELECT project, count(*) AS running
FROM queue
WHERE worker IS NOT NULL AND project = ANY (ARRAY(SELECT json_array_elements_text(:names)))
GROUP BY project;

-- name: running_by_key
SELECT queue.concurrency_key, count(*) AS running
FROM json_array_elements_text(:names) AS wanted (name)
CROSS JOIN LATERAL (
    SELECT * FROM queue
    WHERE queue.concurrency_key = wanted.name AND queue.concurrency_key IS NOT NULL
        AND queue.worker IS NOT NULL
    OFFSET 0
) AS queue
GROUP BY queue.concurrency_key;

-- A heartbeat does not wait: a row that another transaction has locked keeps its time, and its lease counts as held.
-- name: held_leases
SELECT held.job_id, held.fence
FROM json_to_recordset(:rows) AS wanted (job_id text, fence bigint)
CROSS JOIN LATERAL (
    SELECT queue.job_id, queue.fence FROM queue
    WHERE queue.job_id = wanted.job_id AND queue.fence = wanted.fence AND queue.worker = :worker
    OFFSET 0
) AS held;

-- name: lock_leases
SELECT held.job_id
FROM json_to_recordset(:rows) AS wanted (job_id text, fence bigint)
CROSS JOIN LATERAL (
    SELECT queue.job_id FROM queue
    WHERE queue.job_id = wanted.job_id AND queue.fence = wanted.fence AND queue.worker = :worker
    FOR UPDATE SKIP LOCKED
) AS held;

-- name: renew
MERGE INTO queue USING json_array_elements_text(:ids) AS held (id) ON queue.job_id = held.id
WHEN MATCHED THEN UPDATE SET lease_until = :until
WHEN NOT MATCHED AND held.id IS NULL THEN INSERT (job_id) VALUES (held.id);

-- Differs because: two keepers must not take the same rows at the same time; SQLite has one writer.
-- name: lock_intake
SELECT id, operation, body, idempotency_key
FROM intake
WHERE error IS NULL
ORDER BY id
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: notify
SELECT pg_notify('detent', '');

-- name: due_leases
SELECT job_id, fence
FROM queue
WHERE worker IS NOT NULL AND lease_until <= :now
ORDER BY lease_until
LIMIT :limit;

-- name: shift_leases
UPDATE queue SET lease_until = lease_until - :ahead WHERE worker IS NOT NULL;
