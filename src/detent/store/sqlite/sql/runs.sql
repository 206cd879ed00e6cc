-- Differs because: SQLite takes a list as an array in memory (carray), and writes fastest with one short
-- statement for each row; with a database server every statement costs a round trip.

-- name: live_runs
SELECT
    run_id AS id, id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, CAST(NULL AS TEXT) AS step, run_started_at AS
    started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM carray(:ids) AS wanted CROSS JOIN active_jobs
    ON active_jobs.id = wanted.value AND run_state IN ('queued', 'running')
UNION ALL
SELECT
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
FROM carray(:ids) AS wanted CROSS JOIN other_runs
    ON job_id = wanted.value AND other_runs.state IN ('queued', 'running');

-- The id of a run begins with that of its job.
-- name: runs_of_jobs
SELECT
    run_id AS id, id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, CAST(NULL AS TEXT) AS step, run_started_at AS
    started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM carray(:ids) AS wanted CROSS JOIN active_jobs
    ON active_jobs.id = wanted.value AND run_state IS NOT NULL
UNION ALL
SELECT
    run_id AS id, id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, CAST(NULL AS TEXT) AS step, run_started_at AS
    started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM carray(:ids) AS wanted CROSS JOIN ended_jobs
    ON ended_jobs.id = wanted.value AND run_state IS NOT NULL
UNION ALL
SELECT
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
FROM carray(:ids) AS wanted CROSS JOIN other_runs
    ON job_id = wanted.value;

-- name: update_runs
UPDATE active_jobs SET
    run_state = :state, run_attempt = :attempt, run_fence = :fence, run_worker = :worker,
    run_queued_at = :queued_at, run_started_at = :started_at, run_ended_at = :ended_at, run_outcome
    = :outcome, run_exit_code = :exit_code, run_error_class = :error_class, run_error = :error,
    run_session_id = :session_id, run_cost = :cost, run_tokens_in = :tokens_in, run_tokens_out =
    :tokens_out, run_progress = :progress, run_note = :note, run_reserved = :reserved, run_reason =
    :reason
WHERE id = :job_id AND run_id = :id;

-- name: update_ended_runs
UPDATE ended_jobs SET
    run_state = :state, run_attempt = :attempt, run_fence = :fence, run_worker = :worker,
    run_queued_at = :queued_at, run_started_at = :started_at, run_ended_at = :ended_at, run_outcome
    = :outcome, run_exit_code = :exit_code, run_error_class = :error_class, run_error = :error,
    run_session_id = :session_id, run_cost = :cost, run_tokens_in = :tokens_in, run_tokens_out =
    :tokens_out, run_progress = :progress, run_note = :note, run_reserved = :reserved, run_reason =
    :reason
WHERE id = :job_id AND run_id = :id;

-- The run in the row of a job is copied before it is removed there.
-- name: keep_runs
INSERT OR IGNORE INTO other_runs (
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
)
SELECT
    run_id, id, run_state, run_attempt, run_fence, run_worker, run_queued_at, NULL, run_started_at,
    run_ended_at, run_outcome, run_exit_code, run_error_class, run_error, run_session_id, run_cost,
    run_tokens_in, run_tokens_out, run_progress, run_note, run_reserved, run_reason
FROM active_jobs
WHERE id = :id AND run_state IS NOT NULL;

-- name: upsert_runs
INSERT INTO other_runs (
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
) VALUES (
    :id, :job_id, :state, :attempt, :fence, :worker, :queued_at, :step, :started_at, :ended_at,
    :outcome, :exit_code, :error_class, :error, :session_id, :cost, :tokens_in, :tokens_out,
    :progress, :note, :reserved, :reason
)
ON CONFLICT (job_id, id) DO UPDATE SET
    state = excluded.state, attempt = excluded.attempt, fence = excluded.fence, worker =
    excluded.worker, queued_at = excluded.queued_at, started_at = excluded.started_at, ended_at =
    excluded.ended_at, outcome = excluded.outcome, exit_code = excluded.exit_code, error_class =
    excluded.error_class, error = excluded.error, session_id = excluded.session_id, cost =
    excluded.cost, tokens_in = excluded.tokens_in, tokens_out = excluded.tokens_out, progress =
    excluded.progress, note = excluded.note, reserved = excluded.reserved, reason = excluded.reason;

-- name: delete_runs
DELETE FROM other_runs WHERE job_id IN (SELECT value FROM carray(:ids));
