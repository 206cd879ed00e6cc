-- Differs because: SQLite has one writer, so that no rows are locked or skipped, and the statements name the
-- index to use.

-- name: queue_jobs
UPDATE active_jobs SET lane = :lane, due_at = :due_at, asleep = :asleep, lease_id = NULL WHERE id = :job_id;

-- name: lease_jobs
UPDATE active_jobs SET lane = intent, lease_id = :lease WHERE id = :job_id;

-- name: unqueue_jobs
UPDATE active_jobs SET lane = NULL, asleep = 0, lease_id = NULL
WHERE id IN (SELECT value FROM carray(:ids));

-- name: upsert_deadlines
INSERT INTO deadlines (job_id, due_at) VALUES (:job_id, :due_at)
ON CONFLICT (job_id) DO UPDATE SET due_at = excluded.due_at;

-- name: delete_deadlines
DELETE FROM deadlines WHERE job_id IN (SELECT value FROM carray(:ids));

-- A limited number, oldest first, so that a claim stays short when many jobs become due together.
-- name: wake_queue
UPDATE active_jobs SET asleep = 0
WHERE id IN (
    SELECT id FROM active_jobs INDEXED BY active_jobs_asleep
    WHERE asleep = 1 AND due_at <= :now
    ORDER BY due_at
    LIMIT 5000
);

-- Lanes with claimable jobs, and the projects in each; each is found by a few steps in the index.
-- name: next_lane
SELECT lane
FROM active_jobs INDEXED BY active_jobs_by_lane
WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND lane > :lane
ORDER BY lane
LIMIT 1;

-- name: next_project
SELECT project
FROM active_jobs INDEXED BY active_jobs_by_lane
WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND lane = :lane AND project > :project
ORDER BY project
LIMIT 1;

-- All projects in a lane. The lowest rank of each is read without concurrency keys and with them.
-- name: projects_in_lane
WITH RECURSIVE found (project) AS (
    SELECT min(project)
    FROM active_jobs INDEXED BY active_jobs_by_lane
    WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND lane = :lane
    UNION ALL
    SELECT (
        SELECT min(active_jobs.project)
        FROM active_jobs INDEXED BY active_jobs_by_lane
        WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND lane = :lane
            AND active_jobs.project > found.project
    )
    FROM found WHERE found.project IS NOT NULL
)
SELECT
    found.project,
    (
        SELECT min(rank)
        FROM active_jobs INDEXED BY active_jobs_by_lane
        WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND lane = :lane
            AND active_jobs.project = found.project AND (concurrency_key IS NOT NULL) = 0
    ) AS plain,
    (
        SELECT min(rank)
        FROM active_jobs INDEXED BY active_jobs_by_lane
        WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND lane = :lane
            AND active_jobs.project = found.project AND (concurrency_key IS NOT NULL) = 1
    ) AS keyed
FROM found
WHERE found.project IS NOT NULL;

-- `plain`: only of a plain job to which nothing has happened but its creation; see job_sets.py.
-- name: claimable_in_lane
SELECT rank, id, intent, project, concurrency_key,
    CASE
        WHEN version <> 1 OR parent_job_id IS NOT NULL OR not_before <> 0 THEN NULL
        WHEN task_id IS NULL THEN options
        ELSE (
            SELECT '["' || lifecycle || '",' || active_tasks.options || ',' || active_jobs.options || ']'
            FROM active_tasks
            WHERE active_tasks.id = task_id AND active_tasks.version = 2 AND parent_id IS NULL
                AND depends_on = '[]' AND budget IS NULL AND active_tasks.job_id = active_jobs.id
        )
    END AS plain
FROM active_jobs INDEXED BY active_jobs_by_lane
WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND lane = :lane AND project = :project
    AND (concurrency_key IS NOT NULL) = :keyed AND rank <= :worst_rank
ORDER BY rank, id
LIMIT :limit;

-- name: next_key
SELECT concurrency_key
FROM active_jobs INDEXED BY active_jobs_by_key
WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND concurrency_key IS NOT NULL
    AND lane = :lane AND project = :project AND concurrency_key > :key
ORDER BY concurrency_key
LIMIT 1;

-- name: claimable_of_key
SELECT rank, id, intent, project, concurrency_key,
    CASE
        WHEN version <> 1 OR parent_job_id IS NOT NULL OR not_before <> 0 THEN NULL
        WHEN task_id IS NULL THEN options
        ELSE (
            SELECT '["' || lifecycle || '",' || active_tasks.options || ',' || active_jobs.options || ']'
            FROM active_tasks
            WHERE active_tasks.id = task_id AND active_tasks.version = 2 AND parent_id IS NULL
                AND depends_on = '[]' AND budget IS NULL AND active_tasks.job_id = active_jobs.id
        )
    END AS plain
FROM active_jobs INDEXED BY active_jobs_by_key
WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND concurrency_key IS NOT NULL
    AND lane = :lane AND project = :project AND concurrency_key = :key AND rank <= :worst_rank
ORDER BY rank, id
LIMIT :limit;

-- ---- leases ----------------------------------------------------------------------------------

-- name: insert_lease
INSERT INTO leases (worker, until, held, jobs) VALUES (:worker, :until, :held, :jobs) RETURNING id;

-- name: leases_of
SELECT lease_id
FROM carray(:ids) AS wanted CROSS JOIN active_jobs
    ON active_jobs.id = wanted.value AND active_jobs.lease_id IS NOT NULL;

-- name: leased
SELECT active_jobs.lease_id, active_jobs.id
FROM active_jobs
WHERE active_jobs.id = :job_id AND active_jobs.fence = :fence AND active_jobs.worker = :worker
    AND active_jobs.lease_id IS NOT NULL;

-- name: lower_leases
UPDATE leases SET held = held - :released WHERE id = :id;

-- name: delete_leases
DELETE FROM leases WHERE id = :id AND held <= 0;

-- name: extend_leases
UPDATE leases SET until = :until WHERE id = :id AND held = :held RETURNING id;

-- name: due_leases
SELECT active_jobs.id AS job_id, active_jobs.fence
FROM leases CROSS JOIN json_each(leases.jobs) AS claimed
    CROSS JOIN active_jobs ON active_jobs.id = claimed.value AND active_jobs.lease_id = leases.id
WHERE leases.until <= :now
ORDER BY leases.until
LIMIT :limit;

-- name: shift_leases
UPDATE leases SET until = until - :ahead;

-- name: running
SELECT active_jobs.intent, active_jobs.project, count(*) AS running
FROM leases CROSS JOIN json_each(leases.jobs) AS claimed
    CROSS JOIN active_jobs ON active_jobs.id = claimed.value AND active_jobs.lease_id = leases.id
GROUP BY active_jobs.intent, active_jobs.project;

-- name: running_by_key
SELECT count(*) AS running
FROM active_jobs INDEXED BY active_jobs_leased_keys
WHERE lease_id IS NOT NULL AND concurrency_key IS NOT NULL AND concurrency_key = :name;
