-- Differs because: every statement costs a round trip to the server, so that one statement takes a whole set,
-- as one JSON parameter; and blanking goes through a function, the only one that may change the log.

-- name: delete_waits
MERGE INTO waits USING json_array_elements_text(:ids) AS gone (id) ON waits.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

-- name: delete_signals
MERGE INTO signals USING json_array_elements_text(:ids) AS gone (id) ON signals.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

-- name: delete_checkpoints
MERGE INTO checkpoints USING json_array_elements_text(:ids) AS gone (id) ON checkpoints.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

-- name: delete_steps
MERGE INTO steps USING json_array_elements_text(:ids) AS gone (id) ON steps.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

-- name: delete_plans
MERGE INTO plans USING json_array_elements_text(:ids) AS gone (id) ON plans.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

-- name: delete_evidence
WITH gone AS MATERIALIZED (
    SELECT runs.id
    FROM json_array_elements_text(:ids) AS job (id)
    CROSS JOIN LATERAL (SELECT id FROM job_runs WHERE job_runs.job_id = job.id OFFSET 0) AS runs
)
MERGE INTO evidence USING gone ON evidence.run_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (run_id) VALUES (gone.id);

-- name: delete_output
WITH gone AS MATERIALIZED (
    SELECT runs.id
    FROM json_array_elements_text(:ids) AS job (id)
    CROSS JOIN LATERAL (SELECT id FROM job_runs WHERE job_runs.job_id = job.id OFFSET 0) AS runs
)
MERGE INTO output USING gone ON output.run_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (run_id) VALUES (gone.id);

-- name: delete_other_runs
MERGE INTO other_runs USING json_array_elements_text(:ids) AS gone (id) ON other_runs.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

-- The rows of tasks and jobs that are deleted next; `part` is the number of the body with the last event.
-- name: insert_tombstones
INSERT INTO tombstones (stream, commits)
SELECT given.id, kept.commits || CASE WHEN given.part IS NULL THEN ''
    ELSE ',' || (current_setting('detent.commit')::bigint + given.part) END
FROM json_to_recordset(:rows) AS given (id text, part integer)
CROSS JOIN LATERAL (
    SELECT commits FROM active_jobs WHERE active_jobs.id = given.id
    UNION ALL
    SELECT commits FROM ended_jobs WHERE ended_jobs.id = given.id
    UNION ALL
    SELECT commits FROM active_tasks WHERE active_tasks.id = given.id
    UNION ALL
    SELECT commits FROM ended_tasks WHERE ended_tasks.id = given.id
    OFFSET 0
) AS kept;

-- name: expired_keys
SELECT project, key FROM idempotency_keys
WHERE expires_at <= :now
ORDER BY expires_at
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: delete_keys
MERGE INTO idempotency_keys USING json_populate_recordset(NULL::idempotency_keys, :rows) AS old
ON idempotency_keys.project = old.project AND idempotency_keys.key = old.key
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND old.key IS NULL THEN INSERT (project) VALUES (old.project);

-- The commits with events of these streams.
-- name: commits_to_blank
SELECT commits.id, commits.at, commits.body
FROM (
    SELECT stream_commits.commit_id
    FROM json_array_elements_text(:ids) AS gone (id)
    CROSS JOIN LATERAL (
        SELECT commit_id FROM stream_commits WHERE stream_commits.stream = gone.id OFFSET 0
    ) AS stream_commits
    UNION
    SELECT kept.commit_id::bigint
    FROM json_array_elements_text(:ids) AS gone (id)
    CROSS JOIN LATERAL (
        SELECT commits FROM active_jobs WHERE active_jobs.id = gone.id
        UNION ALL
        SELECT commits FROM ended_jobs WHERE ended_jobs.id = gone.id
        UNION ALL
        SELECT commits FROM active_tasks WHERE active_tasks.id = gone.id
        UNION ALL
        SELECT commits FROM ended_tasks WHERE ended_tasks.id = gone.id
        OFFSET 0
    ) AS stored
    CROSS JOIN LATERAL unnest(string_to_array(stored.commits, ',')) AS kept (commit_id)
    WHERE kept.commit_id <> ''
) AS own
CROSS JOIN LATERAL (SELECT * FROM commits WHERE commits.id = own.commit_id OFFSET 0) AS commits;

-- name: blank_events
SELECT blank_events(:rows);

-- After this statement the commits of every stream are in stream_commits, as the log has them.
-- name: list_streams
INSERT INTO stream_commits (stream, commit_id)
SELECT DISTINCT streams.part ->> 0, commits.id
FROM commits CROSS JOIN LATERAL commit_parts(commits.body, NULL) AS streams
ON CONFLICT DO NOTHING;

-- Whole commits up to a position, without the last one. A tombstone goes with the last commit of its stream, which is in
-- stream_commits if the stream has more than a row lists.
-- name: trim_commits
WITH old AS MATERIALIZED (
    SELECT commit_positions.commit_id, commits.events
    FROM commit_positions JOIN commits ON commits.id = commit_positions.commit_id
    WHERE commit_positions.first_position + commits.events - 1 <= :upto
        AND commit_positions.first_position < (SELECT max(first_position) FROM commit_positions)
),
trimmed_commits AS (DELETE FROM commits USING old WHERE commits.id = old.commit_id),
trimmed_positions AS (
    DELETE FROM commit_positions USING old WHERE commit_positions.commit_id = old.commit_id
),
trimmed_links AS (
    DELETE FROM stream_commits USING old WHERE stream_commits.commit_id = old.commit_id
),
trimmed_tombstones AS (
    DELETE FROM tombstones USING old
    WHERE old.commit_id = greatest(
        (string_to_array(commits, ','))[cardinality(string_to_array(commits, ','))]::bigint,
        (SELECT max(commit_id) FROM stream_commits WHERE stream_commits.stream = tombstones.stream)
    )
)
SELECT coalesce(sum(events), 0)::bigint AS events FROM old;
