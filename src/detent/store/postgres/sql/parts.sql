-- Differs because: every statement costs a round trip to the server, so that one statement takes a whole set,
-- as one JSON parameter.
-- jobs.sql explains how query plans are kept stable.

-- name: live_runs
SELECT runs.id, runs.job_id, runs.state, runs.attempt, runs.fence, runs.worker, runs.queued_at,
    runs.step, runs.started_at, runs.ended_at, runs.outcome, runs.exit_code, runs.error_class,
    runs.error, runs.session_id, runs.cost, runs.tokens_in, runs.tokens_out, runs.progress,
    runs.note, runs.reserved, runs.reason
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM job_runs
    WHERE job_runs.job_id = wanted.id AND job_runs.state IN ('queued', 'running')
    OFFSET 0
) AS runs;

-- The id of a run is that of its job with a number, so that it is found by the key of the job.
-- name: runs
SELECT runs.id, runs.job_id, runs.state, runs.attempt, runs.fence, runs.worker, runs.queued_at,
    runs.step, runs.started_at, runs.ended_at, runs.outcome, runs.exit_code, runs.error_class,
    runs.error, runs.session_id, runs.cost, runs.tokens_in, runs.tokens_out, runs.progress,
    runs.note, runs.reserved, runs.reason
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM job_runs
    WHERE job_runs.id = wanted.id
        AND job_runs.job_id = regexp_replace(wanted.id, '-r[0-9]+$', '')
    OFFSET 0
) AS runs;

-- name: used_blobs
SELECT evidence.sha256
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT sha256 FROM evidence WHERE evidence.sha256 = wanted.id LIMIT 1
) AS evidence;

-- Runs that are not in the row of their job.
-- name: upsert_runs
INSERT INTO other_runs (
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
)
SELECT
    given.id, given.job_id, given.state, given.attempt, given.fence, given.worker, given.queued_at,
    given.step, given.started_at, given.ended_at, given.outcome, given.exit_code, given.error_class,
    given.error, given.session_id, given.cost, given.tokens_in, given.tokens_out, given.progress,
    given.note, given.reserved, given.reason
FROM json_populate_recordset(NULL::other_runs, :rows) AS given
ON CONFLICT (id) DO UPDATE SET
    state = excluded.state, started_at = excluded.started_at, ended_at = excluded.ended_at,
    outcome = excluded.outcome, exit_code = excluded.exit_code, error_class = excluded.error_class,
    error = excluded.error, session_id = excluded.session_id, cost = excluded.cost,
    tokens_in = excluded.tokens_in, tokens_out = excluded.tokens_out, progress = excluded.progress,
    note = excluded.note, reserved = excluded.reserved, reason = excluded.reason;

-- Changed runs of ended jobs that are not in the row of their job.
-- name: update_runs
MERGE INTO other_runs AS was USING json_populate_recordset(NULL::other_runs, :rows) AS given
ON was.id = given.id
WHEN MATCHED THEN UPDATE SET
    state = given.state, started_at = given.started_at, ended_at = given.ended_at,
    outcome = given.outcome, exit_code = given.exit_code, error_class = given.error_class,
    error = given.error, session_id = given.session_id, cost = given.cost,
    tokens_in = given.tokens_in, tokens_out = given.tokens_out, progress = given.progress,
    note = given.note, reserved = given.reserved, reason = given.reason
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (NULL);

-- name: steps
SELECT steps.job_id, steps.plan_version, steps.name, steps.state, steps.state_at, steps.retries,
    steps.lost, steps.not_before, steps.run_id, steps.resource, steps.last_resource,
    steps.held_until, steps.wait, steps.reason, steps.error_class, steps.error, steps.avoid,
    steps.result
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = wanted.id OFFSET 0) AS jobs
CROSS JOIN LATERAL (
    SELECT * FROM steps
    WHERE steps.job_id = jobs.id AND steps.plan_version = jobs.plan_version
    OFFSET 0
) AS steps;

-- name: upsert_steps
INSERT INTO steps (
    job_id, plan_version, name, state, state_at, retries, lost, not_before, run_id, resource,
    last_resource, held_until, wait, reason, error_class, error, avoid, result
)
SELECT
    given.job_id, given.plan_version, given.name, given.state, given.state_at, given.retries,
    given.lost, given.not_before, given.run_id, given.resource, given.last_resource,
    given.held_until, given.wait, given.reason, given.error_class, given.error, given.avoid,
    given.result
FROM json_populate_recordset(NULL::steps, :rows) AS given
ON CONFLICT (job_id, plan_version, name) DO UPDATE SET
    state = excluded.state, state_at = excluded.state_at, retries = excluded.retries,
    lost = excluded.lost, not_before = excluded.not_before, run_id = excluded.run_id,
    resource = excluded.resource, last_resource = excluded.last_resource,
    held_until = excluded.held_until, wait = excluded.wait, reason = excluded.reason,
    error_class = excluded.error_class, error = excluded.error, avoid = excluded.avoid,
    result = excluded.result;

-- name: waits
SELECT waits.job_id, waits.name, waits.kind, waits.begun_at, waits.step, waits.missing, waits.due_at,
    waits.needs, waits.detail
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM waits WHERE waits.job_id = wanted.id OFFSET 0) AS waits;

-- name: upsert_waits
INSERT INTO waits (
    job_id, name, kind, begun_at, step, missing, due_at, needs, detail
)
SELECT
    given.job_id, given.name, given.kind, given.begun_at, given.step, given.missing, given.due_at,
    given.needs, given.detail
FROM json_populate_recordset(NULL::waits, :rows) AS given
ON CONFLICT (job_id, name) DO UPDATE SET
    kind = excluded.kind, begun_at = excluded.begun_at, step = excluded.step,
    missing = excluded.missing, due_at = excluded.due_at, needs = excluded.needs,
    detail = excluded.detail;

-- name: signals
SELECT signals.job_id, signals.name, signals.at, signals.value, signals.taken
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM signals WHERE signals.job_id = wanted.id OFFSET 0) AS signals;

-- name: upsert_signals
INSERT INTO signals (
    job_id, name, at, value, taken
)
SELECT
    given.job_id, given.name, given.at, given.value, given.taken
FROM json_populate_recordset(NULL::signals, :rows) AS given
ON CONFLICT (job_id, name) DO UPDATE SET
    at = excluded.at, value = excluded.value, taken = excluded.taken;

-- name: upsert_checkpoints
INSERT INTO checkpoints (
    job_id, name, kind, step, done, value
)
SELECT
    given.job_id, given.name, given.kind, given.step, given.done, given.value
FROM json_populate_recordset(NULL::checkpoints, :rows) AS given
ON CONFLICT (job_id, name) DO UPDATE SET
    kind = excluded.kind, step = excluded.step, done = excluded.done, value = excluded.value;

-- name: checkpoints
SELECT checkpoints.job_id, checkpoints.name, checkpoints.kind, checkpoints.step, checkpoints.done,
    checkpoints.value
FROM json_to_recordset(:keys) AS wanted (job_id text, name text)
CROSS JOIN LATERAL (
    SELECT * FROM checkpoints
    WHERE checkpoints.job_id = wanted.job_id AND checkpoints.name = wanted.name
    OFFSET 0
) AS checkpoints;

-- name: insert_evidence
INSERT INTO evidence (run_id, file, kind, sha256, size, media_type, at)
SELECT
    given.run_id, given.file, given.kind, given.sha256, given.size, given.media_type, given.at
FROM json_populate_recordset(NULL::evidence, :rows) AS given
ON CONFLICT (run_id, file) DO UPDATE SET
    kind = excluded.kind, sha256 = excluded.sha256, size = excluded.size,
    media_type = excluded.media_type, at = excluded.at;

-- name: plans
SELECT plans.job_id, plans.document
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = wanted.id OFFSET 0) AS jobs
CROSS JOIN LATERAL (
    SELECT * FROM plans
    WHERE plans.job_id = jobs.id AND plans.plan_version = jobs.plan_version
    OFFSET 0
) AS plans;

-- name: insert_plans
INSERT INTO plans (job_id, plan_version, document)
SELECT given.job_id, given.plan_version, given.document
FROM json_populate_recordset(NULL::plans, :rows) AS given;

-- name: end_waits
MERGE INTO waits USING json_populate_recordset(NULL::waits, :rows) AS given
ON waits.job_id = given.job_id AND waits.name = given.name
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND given.job_id IS NULL THEN INSERT (job_id) VALUES (given.job_id);
