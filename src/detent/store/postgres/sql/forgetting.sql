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
    CROSS JOIN LATERAL (SELECT runs.id FROM runs WHERE runs.job_id = job.id OFFSET 0) AS runs
)
MERGE INTO evidence USING gone ON evidence.run_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (run_id) VALUES (gone.id);

-- name: delete_output
WITH gone AS MATERIALIZED (
    SELECT runs.id
    FROM json_array_elements_text(:ids) AS job (id)
    CROSS JOIN LATERAL (SELECT runs.id FROM runs WHERE runs.job_id = job.id OFFSET 0) AS runs
)
MERGE INTO output USING gone ON output.run_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (run_id) VALUES (gone.id);

-- name: delete_runs
MERGE INTO runs USING json_array_elements_text(:ids) AS gone (id) ON runs.job_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (job_id) VALUES (gone.id);

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

-- A tombstone keeps its data.
-- name: events_to_blank
SELECT events.position, events.stream, events.version, events.project, events.name, events.schema,
    events.subject, events.at, events.actor, events.data, events.digest
FROM json_array_elements_text(:ids) AS gone (id)
CROSS JOIN LATERAL (
    SELECT * FROM events
    WHERE events.stream = gone.id AND events.digest IS NULL
        AND events.name NOT IN ('task_deleted', 'job_deleted')
    OFFSET 0
) AS events;

-- name: blank_events
SELECT blank_events(:rows);
