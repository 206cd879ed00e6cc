-- Differs because: SQLite is fastest with one short statement for each row, executed many times, and takes
-- positions from the rowid; its write lock alone keeps them in the order of commits.

-- name: insert_events
INSERT INTO events (stream, version, project, name, schema, subject, at, actor, data)
VALUES (:stream, :version, :project, :name, :schema, :subject, :at, :actor, :data);

-- The times that were written: the row of the store's clock, and the last event.
-- name: written
SELECT
    (SELECT value FROM system_state WHERE name = 'clock') AS clock,
    (SELECT at FROM events ORDER BY position DESC LIMIT 1) AS last_at,
    (SELECT position FROM events ORDER BY position DESC LIMIT 1) AS head;

-- name: keys
SELECT project, key, digest, answer, expires_at
FROM idempotency_keys
WHERE project = :project AND key = :key AND expires_at > :now;

-- name: upsert_keys
INSERT INTO idempotency_keys (project, key, digest, answer, expires_at)
VALUES (:project, :key, :digest, :answer, :expires_at)
ON CONFLICT (project, key) DO UPDATE SET
    digest = excluded.digest, answer = excluded.answer, expires_at = excluded.expires_at;
