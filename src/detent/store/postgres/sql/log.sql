-- Differs because: every statement costs a round trip to the server, so that one statement takes a whole set,
-- as one JSON parameter; and several writers append at the same time, so that they need an order.

-- Positions follow the order of commits: a writer holds this lock until it has committed, so that no position
-- becomes visible before a lower one.
-- name: append_turn
SELECT pg_advisory_xact_lock(:kind::integer, 0);

-- Long rows are sent before the lock is taken, so that the lock is held for a short time.
-- name: hand_over
SELECT
    set_config('detent.events', :events, true) IS NULL AS events,
    set_config('detent.arrivals', :arrivals, true) IS NULL AS arrivals;

-- name: insert_events
INSERT INTO events (stream, version, project, name, schema, subject, at, actor, data, digest)
SELECT
    given.stream, given.version, given.project, given.name, given.schema, given.subject, given.at,
    given.actor, given.data, given.digest
FROM json_populate_recordset(
    NULL::events, coalesce(:rows, current_setting('detent.events')::json)
) AS given;

-- name: keys
SELECT idempotency_keys.project, idempotency_keys.key, idempotency_keys.digest,
    idempotency_keys.answer, idempotency_keys.expires_at
FROM json_to_recordset(:rows) AS wanted (project text, key text)
CROSS JOIN LATERAL (
    SELECT * FROM idempotency_keys
    WHERE idempotency_keys.project = wanted.project AND idempotency_keys.key = wanted.key
        AND idempotency_keys.expires_at > :now
    OFFSET 0
) AS idempotency_keys;

-- name: upsert_keys
INSERT INTO idempotency_keys (project, key, digest, answer, expires_at)
SELECT given.project, given.key, given.digest, given.answer, given.expires_at
FROM json_populate_recordset(NULL::idempotency_keys, :rows) AS given
ON CONFLICT (project, key) DO UPDATE SET
    digest = excluded.digest, answer = excluded.answer, expires_at = excluded.expires_at;

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

-- name: trim_events
DELETE FROM events WHERE position <= :upto;
