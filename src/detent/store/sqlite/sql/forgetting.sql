-- Differs because: SQLite takes a list as an array in memory (carray), and writes fastest with one short
-- statement for each row; with a database server every statement costs a round trip.

-- name: delete_waits
DELETE FROM waits WHERE job_id IN (SELECT value FROM carray(:ids));

-- name: delete_signals
DELETE FROM signals WHERE job_id IN (SELECT value FROM carray(:ids));

-- name: delete_checkpoints
DELETE FROM checkpoints WHERE job_id IN (SELECT value FROM carray(:ids));

-- name: delete_steps
DELETE FROM steps WHERE job_id IN (SELECT value FROM carray(:ids));

-- name: delete_plans
DELETE FROM plans WHERE job_id IN (SELECT value FROM carray(:ids));

-- name: delete_evidence
DELETE FROM evidence WHERE run_id IN (
    SELECT run_id FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON active_jobs.id = wanted.value
    UNION ALL
    SELECT run_id FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON ended_jobs.id = wanted.value
    UNION ALL
    SELECT other_runs.id FROM carray(:ids) AS wanted CROSS JOIN other_runs ON job_id = wanted.value
);

-- name: delete_expired_keys
DELETE FROM idempotency_keys WHERE (project, key) IN (
    SELECT project, key FROM idempotency_keys
    WHERE expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
);
