-- Reads of the log.

-- name: events_after
SELECT position, stream, version, project, name, schema, subject, at, actor, data, digest
FROM events
WHERE position > :after AND position <= :upto
ORDER BY position
LIMIT :limit;

-- name: events_of_stream
SELECT position, stream, version, project, name, schema, subject, at, actor, data, digest
FROM events
WHERE stream = :stream AND position > :after AND position <= :upto
ORDER BY version
LIMIT :limit;

-- name: head
SELECT coalesce(max(position), 0) AS position FROM events;

-- name: version_of
SELECT coalesce(max(version), 0) AS version FROM events WHERE stream = :stream;
