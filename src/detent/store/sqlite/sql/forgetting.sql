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
    SELECT id FROM runs WHERE job_id IN (SELECT value FROM carray(:ids))
);

-- name: delete_runs
DELETE FROM runs WHERE job_id IN (SELECT value FROM carray(:ids));

-- name: delete_expired_keys
DELETE FROM idempotency_keys WHERE (project, key) IN (
    SELECT project, key FROM idempotency_keys
    WHERE expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
);

-- A tombstone keeps its data.
-- name: events_to_blank
SELECT position, stream, version, project, name, schema, subject, at, actor, data, digest
FROM carray(:streams) AS wanted CROSS JOIN events
    ON stream = wanted.value AND digest IS NULL AND name NOT IN ('task_deleted', 'job_deleted');

-- name: blank_events
UPDATE events SET data = '', digest = :digest WHERE position = :position;
