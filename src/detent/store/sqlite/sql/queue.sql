-- Differs because: SQLite has one writer, so that no rows are locked or skipped, and the statements name the
-- index to use.

-- name: upsert_queue
INSERT INTO queue (job_id, root_id, project, intent, rank, due_at, concurrency_key, lane, asleep)
VALUES (:job_id, :root_id, :project, :intent, :rank, :due_at, :concurrency_key, :lane, :asleep)
ON CONFLICT (job_id) DO UPDATE SET
    rank = excluded.rank, due_at = excluded.due_at, lane = excluded.lane, asleep = excluded.asleep,
    worker = NULL, fence = 0, lease_until = NULL;

-- A leased job is in the lane of its intent; its lane is written again when it is queued again.
-- name: lease_queue
UPDATE queue SET worker = :worker, fence = :fence, lease_until = :until, lane = intent
WHERE job_id = :job_id;

-- name: delete_queue
DELETE FROM queue WHERE job_id IN (SELECT value FROM carray(:ids));

-- name: upsert_deadlines
INSERT INTO deadlines (job_id, due_at) VALUES (:job_id, :due_at)
ON CONFLICT (job_id) DO UPDATE SET due_at = excluded.due_at;

-- name: delete_deadlines
DELETE FROM deadlines WHERE job_id IN (SELECT value FROM carray(:ids));

-- A limited number, oldest first, so that a claim stays short when many jobs become due together.
-- name: wake_queue
UPDATE queue SET asleep = 0
WHERE job_id IN (
    SELECT job_id FROM queue INDEXED BY queue_asleep
    WHERE asleep = 1 AND due_at <= :now
    ORDER BY due_at
    LIMIT 5000
);

-- name: claimable
SELECT rank, job_id, intent, project, concurrency_key
FROM queue INDEXED BY queue_ready
WHERE worker IS NULL AND asleep = 0
ORDER BY rank, job_id
LIMIT :limit;

-- Lanes with claimable jobs, and the projects in each; each is found by one step in the index.
-- name: next_lane
SELECT lane
FROM queue INDEXED BY queue_lanes
WHERE worker IS NULL AND asleep = 0 AND lane > :lane
ORDER BY lane
LIMIT 1;

-- name: next_project
SELECT project
FROM queue INDEXED BY queue_lanes
WHERE worker IS NULL AND asleep = 0 AND lane = :lane AND project > :project
ORDER BY project
LIMIT 1;

-- name: claimable_in_lane
SELECT rank, job_id, intent, project, concurrency_key
FROM queue INDEXED BY queue_lanes
WHERE worker IS NULL AND asleep = 0 AND lane = :lane AND project = :project
    AND (concurrency_key IS NOT NULL) = :keyed AND rank <= :worst_rank
ORDER BY rank, job_id
LIMIT :limit;

-- name: next_key
SELECT concurrency_key
FROM queue INDEXED BY queue_keys
WHERE worker IS NULL AND asleep = 0 AND concurrency_key IS NOT NULL
    AND lane = :lane AND project = :project AND concurrency_key > :key
ORDER BY concurrency_key
LIMIT 1;

-- name: claimable_of_key
SELECT rank, job_id, intent, project, concurrency_key
FROM queue INDEXED BY queue_keys
WHERE worker IS NULL AND asleep = 0 AND concurrency_key IS NOT NULL
    AND lane = :lane AND project = :project AND concurrency_key = :key AND rank <= :worst_rank
ORDER BY rank, job_id
LIMIT :limit;

-- name: running_by_intent
SELECT count(*) AS running
FROM queue INDEXED BY queue_leased
WHERE worker IS NOT NULL AND intent = :name;

-- name: running_by_project
SELECT count(*) AS running
FROM queue INDEXED BY queue_leased
WHERE worker IS NOT NULL AND project = :name;

-- name: running_by_key
SELECT count(*) AS running
FROM queue INDEXED BY queue_leased_keys
WHERE worker IS NOT NULL AND concurrency_key IS NOT NULL AND concurrency_key = :name;

-- name: renew
UPDATE queue SET lease_until = :until
WHERE job_id = :job_id AND fence = :fence AND worker = :worker
RETURNING job_id, fence;
