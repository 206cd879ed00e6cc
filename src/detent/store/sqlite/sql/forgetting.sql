-- Differs because: SQLite is fastest with one short statement for each row, executed many times;
-- a database on the other side of a connection wants one statement for the whole set.

-- name: delete_waits
DELETE FROM waits WHERE job_id = :job_id;

-- name: delete_signals
DELETE FROM signals WHERE job_id = :job_id;

-- name: delete_checkpoints
DELETE FROM checkpoints WHERE job_id = :job_id;

-- name: delete_steps
DELETE FROM steps WHERE job_id = :job_id;

-- name: delete_plans
DELETE FROM plans WHERE job_id = :job_id;

-- name: delete_evidence
DELETE FROM evidence WHERE run_id IN (SELECT id FROM runs WHERE job_id = :job_id);

-- name: delete_output
DELETE FROM output WHERE run_id IN (SELECT id FROM runs WHERE job_id = :job_id);

-- name: delete_runs
DELETE FROM runs WHERE job_id = :job_id;

-- name: stream_events
SELECT position, stream, version, project, name, schema, subject, at, actor, data, digest
FROM events
WHERE stream = :stream AND digest IS NULL;

-- name: blank_events
UPDATE events SET data = '', digest = :digest WHERE position = :position;
