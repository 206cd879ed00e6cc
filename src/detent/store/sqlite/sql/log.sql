-- Differs because: SQLite takes positions inside the write transaction, so that a commit's id is the position of its
-- first event; its write lock alone keeps them in the order of commits.

-- name: insert_commits
INSERT INTO commits (id, at, events, size, body) VALUES (:id, :at, :events, :size, :body);

-- name: insert_stream_commits
INSERT INTO stream_commits (stream, commit_id) VALUES (:stream, :commit_id);

-- The times that were written: the row of the store's clock, and the last commit.
-- name: written
SELECT
    (SELECT value FROM system_state WHERE name = 'clock') AS clock,
    (SELECT at FROM commits ORDER BY id DESC LIMIT 1) AS last_at,
    (SELECT id + events - 1 FROM commits ORDER BY id DESC LIMIT 1) AS head;

-- name: head
SELECT coalesce((SELECT id + events - 1 FROM commits ORDER BY id DESC LIMIT 1), 0) AS position;

-- The commit with the first position after a given one, and the following commits.
-- name: commits_after
SELECT id, at, events, body
FROM commits
WHERE id >= coalesce((SELECT max(id) FROM commits WHERE id <= :after + 1), 0) AND id <= :upto
ORDER BY id
LIMIT :limit;

-- name: commits_from
SELECT id, body FROM commits WHERE id > :after ORDER BY id LIMIT :limit;

-- name: commits
SELECT id, at, events, body
FROM carray(:ids) AS wanted CROSS JOIN commits ON commits.id = wanted.value;

-- name: commit_at
SELECT id, events FROM commits WHERE id <= :position ORDER BY id DESC LIMIT 1;

-- name: rewrite_commits
UPDATE commits SET size = :size, body = :body WHERE id = :id;

-- The version of a stream with a row, and the ids of its commits that are in the row.
-- name: streams
SELECT id, version, commits FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON active_jobs.id = wanted.value
UNION ALL
SELECT id, version, commits FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON ended_jobs.id = wanted.value
UNION ALL
SELECT id, version, commits FROM carray(:ids) AS wanted CROSS JOIN active_tasks ON active_tasks.id = wanted.value
UNION ALL
SELECT id, version, commits FROM carray(:ids) AS wanted CROSS JOIN ended_tasks ON ended_tasks.id = wanted.value
UNION ALL
SELECT stream, 0, commits FROM carray(:ids) AS wanted CROSS JOIN tombstones ON stream = wanted.value;

-- Ids that a new task or job cannot have.
-- name: used_ids
SELECT id, 'job' AS kind FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON ended_jobs.id = wanted.value
UNION ALL
SELECT id, 'job' FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON active_jobs.id = wanted.value
UNION ALL
SELECT id, 'task' FROM carray(:ids) AS wanted CROSS JOIN active_tasks ON active_tasks.id = wanted.value
UNION ALL
SELECT id, 'task' FROM carray(:ids) AS wanted CROSS JOIN ended_tasks ON ended_tasks.id = wanted.value
UNION ALL
SELECT stream, 'deleted' FROM carray(:ids) AS wanted CROSS JOIN tombstones ON stream = wanted.value;

-- name: stream_commits
SELECT commit_id FROM stream_commits WHERE stream = :stream ORDER BY commit_id;

-- name: last_stream_commit
SELECT commit_id FROM stream_commits WHERE stream = :stream ORDER BY commit_id DESC LIMIT 1;

-- Whole commits up to a position, without the last one.
-- name: trimmed_events
SELECT coalesce(sum(events), 0) AS events
FROM commits
WHERE id <= :upto AND id + events - 1 <= :upto AND id < (SELECT max(id) FROM commits);

-- name: trim_commits
DELETE FROM commits WHERE id <= :upto AND id + events - 1 <= :upto AND id < (SELECT max(id) FROM commits);

-- name: trim_stream_commits
DELETE FROM stream_commits WHERE commit_id < (SELECT min(id) FROM commits);

-- name: trim_tombstones
DELETE FROM tombstones WHERE last_commit < (SELECT min(id) FROM commits);

-- name: upsert_tombstones
INSERT INTO tombstones (stream, last_commit, commits) VALUES (:stream, :last_commit, :commits)
ON CONFLICT (stream) DO UPDATE SET
    last_commit = excluded.last_commit, commits = tombstones.commits || excluded.commits;

-- name: clear_stream_commits
DELETE FROM stream_commits;

-- name: clear_tombstone_commits
UPDATE tombstones SET commits = '';

-- name: keys
SELECT project, key, digest, answer, expires_at
FROM idempotency_keys
WHERE project = :project AND key = :key AND expires_at > :now;

-- name: upsert_keys
INSERT INTO idempotency_keys (project, key, digest, answer, expires_at)
VALUES (:project, :key, :digest, :answer, :expires_at)
ON CONFLICT (project, key) DO UPDATE SET
    digest = excluded.digest, answer = excluded.answer, expires_at = excluded.expires_at;
