-- Differs because: every statement costs a round trip to the server, so that one statement takes a whole set,
-- as one JSON parameter; and several writers append at the same time, so that positions are assigned later.

-- The transaction has a transaction id before it allocates the commit id: the sequencer waits for an id that is
-- missing only as long as a transaction with a lower transaction id is running. All rows that the events are about
-- are locked by now, so that the commits of a stream are in the order of their ids.
-- name: allocate_commit
SELECT set_config(
    'detent.commit',
    CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('commit_ids')::text END,
    true
);

-- name: insert_commits
INSERT INTO commits (id, at, events, body)
SELECT current_setting('detent.commit')::bigint + given.part, given.at, given.events, given.body
FROM json_to_recordset(:rows) AS given (part integer, at bigint, events integer, body text);

-- name: insert_stream_commits
INSERT INTO stream_commits (stream, commit_id)
SELECT given.stream, current_setting('detent.commit')::bigint + given.part
FROM json_to_recordset(:rows) AS given (stream text, part integer);

-- name: sequence_commits
SELECT sequence_commits() AS position;

-- name: last_commit
SELECT coalesce((SELECT id FROM commits ORDER BY id DESC LIMIT 1), 0) AS id;

-- name: last_position
SELECT coalesce((SELECT position FROM sequencer_turns ORDER BY turn DESC LIMIT 1), 0) AS position;

-- The commit that begins last at or before a position: its first and its last position.
-- name: commit_at
SELECT place.first_position, place.first_position + commits.events - 1 AS last_position
FROM (
    SELECT first_position, commit_id FROM commit_positions WHERE first_position <= :position
    ORDER BY first_position DESC LIMIT 1
) AS place
CROSS JOIN LATERAL (
    SELECT events FROM commits WHERE commits.id = place.commit_id OFFSET 0
) AS commits;

-- The commits with positions after one, beginning with the one that may contain the next position, until their texts
-- reach a number of bytes.
-- name: commits_after
SELECT first_position, at, events, body
FROM (
    SELECT
        place.first_position, commits.at, commits.events, commits.body,
        coalesce(sum(commits.size) FILTER (WHERE place.first_position + commits.events > :after::bigint + 1) OVER (
            ORDER BY place.first_position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS bytes_before
    FROM (
        SELECT first_position, commit_id FROM commit_positions
        WHERE first_position >= coalesce((
                SELECT first_position FROM commit_positions WHERE first_position <= :after::bigint + 1
                ORDER BY first_position DESC LIMIT 1
            ), 0)
            AND first_position < greatest(:after, coalesce((
                SELECT first_position FROM commit_positions WHERE first_position > :after
                ORDER BY first_position LIMIT 1
            ), 0)) + :limit
            AND first_position <= :upto
        ORDER BY first_position
        OFFSET 0
    ) AS place
    CROSS JOIN LATERAL (
        SELECT at, events, body, octet_length(body) AS size
        FROM commits WHERE commits.id = place.commit_id OFFSET 0
    ) AS commits
) AS found
WHERE bytes_before < :bytes
ORDER BY first_position;

-- Commits without a position come last.
-- name: commits_of_stream
SELECT coalesce(place.first_position, 0) AS first_position, commits.at, commits.body
FROM (
    SELECT commit_id FROM stream_commits WHERE stream = :stream
    UNION
    SELECT kept.commit_id::bigint
    FROM (
        SELECT commits FROM active_jobs WHERE id = :stream
        UNION ALL
        SELECT commits FROM ended_jobs WHERE id = :stream
        UNION ALL
        SELECT commits FROM active_tasks WHERE id = :stream
        UNION ALL
        SELECT commits FROM ended_tasks WHERE id = :stream
        UNION ALL
        SELECT commits FROM tombstones WHERE stream = :stream
    ) AS stored
    CROSS JOIN LATERAL unnest(string_to_array(stored.commits, ',')) AS kept (commit_id)
    WHERE kept.commit_id <> ''
) AS own
CROSS JOIN LATERAL (
    SELECT at, events, body FROM commits WHERE commits.id = own.commit_id OFFSET 0
) AS commits
LEFT JOIN LATERAL (
    SELECT first_position FROM commit_positions WHERE commit_positions.commit_id = own.commit_id OFFSET 0
) AS place ON true
WHERE CASE WHEN place.first_position IS NULL THEN :upto::bigint = :end_of_log::bigint
    ELSE place.first_position + commits.events > :after::bigint + 1 AND place.first_position <= :upto::bigint END
ORDER BY place.first_position NULLS LAST, own.commit_id
LIMIT :limit;

-- The commits that the sequencer has not seen yet, each with the last position.
-- name: commits_without_position
SELECT turn.position, commits.at, commits.body
FROM (
    SELECT coalesce(max(high), 0) AS high, coalesce(max(position), 0) AS position FROM (
        SELECT high, position FROM sequencer_turns ORDER BY turn DESC LIMIT 1
    ) AS last
) AS turn
CROSS JOIN LATERAL (
    SELECT id, at, body FROM commits WHERE commits.id > turn.high
    UNION ALL
    SELECT late.id, late.at, late.body
    FROM (SELECT missing FROM sequencer_turns ORDER BY turn DESC LIMIT 1) AS last
    CROSS JOIN LATERAL unnest(last.missing) AS base
    CROSS JOIN LATERAL (
        SELECT * FROM commits WHERE commits.id >= base AND commits.id < base + 1024 OFFSET 0
    ) AS late
) AS commits
ORDER BY commits.id;

-- Which of these are ended tasks or jobs.
-- name: ended_ids
SELECT wanted.id
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT FROM ended_jobs WHERE ended_jobs.id = wanted.id
    UNION ALL
    SELECT FROM ended_tasks WHERE ended_tasks.id = wanted.id
    OFFSET 0
) AS ended;

-- name: row_version
SELECT version FROM active_jobs WHERE id = :stream
UNION ALL
SELECT version FROM ended_jobs WHERE id = :stream
UNION ALL
SELECT version FROM active_tasks WHERE id = :stream
UNION ALL
SELECT version FROM ended_tasks WHERE id = :stream;

-- name: last_commit_of_stream
SELECT commits.body
FROM (
    SELECT commit_id FROM (
        SELECT commit_id FROM stream_commits WHERE stream = :stream
        ORDER BY commit_id DESC LIMIT 1
    ) AS listed
    UNION
    SELECT kept.commit_id::bigint
    FROM tombstones CROSS JOIN LATERAL unnest(string_to_array(commits, ',')) AS kept (commit_id)
    WHERE stream = :stream AND kept.commit_id <> ''
) AS own
CROSS JOIN LATERAL (
    SELECT body FROM commits WHERE commits.id = own.commit_id OFFSET 0
) AS commits
ORDER BY own.commit_id DESC
LIMIT 1;

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
