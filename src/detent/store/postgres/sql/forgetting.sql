-- Differs because: the database is on the other side of a connection, so that one statement takes a whole set,
-- as one JSON parameter; and blanking goes through a function, the only one that may change the log.

-- name: delete_waits
DELETE FROM waits USING json_array_elements_text(:ids) AS gone (id) WHERE waits.job_id = gone.id;

-- name: delete_signals
DELETE FROM signals USING json_array_elements_text(:ids) AS gone (id)
WHERE signals.job_id = gone.id;

-- name: delete_checkpoints
DELETE FROM checkpoints USING json_array_elements_text(:ids) AS gone (id)
WHERE checkpoints.job_id = gone.id;

-- name: delete_steps
DELETE FROM steps USING json_array_elements_text(:ids) AS gone (id) WHERE steps.job_id = gone.id;

-- name: delete_plans
DELETE FROM plans USING json_array_elements_text(:ids) AS gone (id) WHERE plans.job_id = gone.id;

-- name: delete_evidence
DELETE FROM evidence USING json_array_elements_text(:ids) AS gone (id), runs
WHERE runs.job_id = gone.id AND evidence.run_id = runs.id;

-- name: delete_output
DELETE FROM output USING json_array_elements_text(:ids) AS gone (id), runs
WHERE runs.job_id = gone.id AND output.run_id = runs.id;

-- name: delete_runs
DELETE FROM runs USING json_array_elements_text(:ids) AS gone (id) WHERE runs.job_id = gone.id;

-- A tombstone keeps what it says.
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
