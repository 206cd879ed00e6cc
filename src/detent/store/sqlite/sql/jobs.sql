-- Differs because: SQLite takes a list as an array in memory (carray), and writes fastest with one short
-- statement for each row; with a database server every statement costs a round trip.

-- name: jobs
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version
FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON active_jobs.id = wanted.value;

-- name: ended_jobs
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version
FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON ended_jobs.id = wanted.value;

-- name: insert_jobs
INSERT INTO active_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
    payload, commits, lane, due_at, asleep
) VALUES (
    :id, :project, :state, :state_at, :intent, :priority, :rank, :root_id, :task_id, :parent_job_id,
    :queued_at, :not_before, :attempt, :lost, :fence, :nonce, :worker, :runs, :run_id,
    :cancel_reason, :plan_version, :replans, :concurrency_key, :queue_deadline, :job_deadline,
    :error_class, :error, :created_at, :ended_at, :resuming, :failures, :plan_wanted, :waited,
    :result, :options, :version, :payload, :commits, :lane, :due_at, :asleep
);

-- name: insert_ended_jobs
INSERT INTO ended_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
    payload, commits
) VALUES (
    :id, :project, :state, :state_at, :intent, :priority, :rank, :root_id, :task_id, :parent_job_id,
    :queued_at, :not_before, :attempt, :lost, :fence, :nonce, :worker, :runs, :run_id,
    :cancel_reason, :plan_version, :replans, :concurrency_key, :queue_deadline, :job_deadline,
    :error_class, :error, :created_at, :ended_at, :resuming, :failures, :plan_wanted, :waited,
    :result, :options, :version, :payload, :commits
);

-- An active row has the facts of a run while the job is running; `keep_runs` copies those that are removed.
-- name: update_jobs
UPDATE active_jobs SET
    state = :state, state_at = :state_at, priority = :priority, rank = :rank, queued_at =
    :queued_at, not_before = :not_before, attempt = :attempt, lost = :lost, fence = :fence, nonce =
    :nonce, worker = :worker, runs = :runs, run_id = :run_id, cancel_reason = :cancel_reason,
    plan_version = :plan_version, replans = :replans, queue_deadline = :queue_deadline, job_deadline
    = :job_deadline, error_class = :error_class, error = :error, ended_at = :ended_at, resuming =
    :resuming, failures = :failures, plan_wanted = :plan_wanted, waited = :waited, result = :result,
    run_state = CASE WHEN :state = 'running' AND run_id IS :run_id THEN run_state END, version =
    :version, commits = commits || :commits
WHERE id = :id AND version = coalesce(:before, version);

-- A checkpoint changes nothing else. Without the other columns, no index is written.
-- name: update_job_versions
UPDATE active_jobs SET version = :version, commits = commits || :commits
WHERE id = :id AND version = coalesce(:before, version);

-- name: update_jobs_with_runs
UPDATE active_jobs SET
    state = :state, state_at = :state_at, priority = :priority, rank = :rank, queued_at =
    :queued_at, not_before = :not_before, attempt = :attempt, lost = :lost, fence = :fence, nonce =
    :nonce, worker = :worker, runs = :runs, run_id = :run_id, cancel_reason = :cancel_reason,
    plan_version = :plan_version, replans = :replans, queue_deadline = :queue_deadline, job_deadline
    = :job_deadline, error_class = :error_class, error = :error, ended_at = :ended_at, resuming =
    :resuming, failures = :failures, plan_wanted = :plan_wanted, waited = :waited, result = :result,
    run_state = :run_state, run_attempt = :run_attempt, run_fence = :run_fence, run_worker =
    :run_worker, run_queued_at = :run_queued_at, run_started_at = :run_started_at, run_ended_at =
    :run_ended_at, run_outcome = :run_outcome, run_exit_code = :run_exit_code, run_error_class =
    :run_error_class, run_error = :run_error, run_session_id = :run_session_id, run_cost =
    :run_cost, run_tokens_in = :run_tokens_in, run_tokens_out = :run_tokens_out, run_progress =
    :run_progress, run_note = :run_note, run_reserved = :run_reserved, run_reason = :run_reason,
    version = :version, commits = commits || :commits
WHERE id = :id AND version = coalesce(:before, version);

-- A leased job is in the lane of its intent; its lane is written again when it is queued again.
-- name: claim_jobs
UPDATE active_jobs SET
    state = :state, state_at = :state_at, priority = :priority, rank = :rank, queued_at =
    :queued_at, not_before = :not_before, attempt = :attempt, lost = :lost, fence = :fence, nonce =
    :nonce, worker = :worker, runs = :runs, run_id = :run_id, cancel_reason = :cancel_reason,
    plan_version = :plan_version, replans = :replans, queue_deadline = :queue_deadline, job_deadline
    = :job_deadline, error_class = :error_class, error = :error, ended_at = :ended_at, resuming =
    :resuming, failures = :failures, plan_wanted = :plan_wanted, waited = :waited, result = :result,
    run_state = :run_state, run_attempt = :run_attempt, run_fence = :run_fence, run_worker =
    :run_worker, run_queued_at = :run_queued_at, run_started_at = :run_started_at, run_ended_at =
    :run_ended_at, run_outcome = :run_outcome, run_exit_code = :run_exit_code, run_error_class =
    :run_error_class, run_error = :run_error, run_session_id = :run_session_id, run_cost =
    :run_cost, run_tokens_in = :run_tokens_in, run_tokens_out = :run_tokens_out, run_progress =
    :run_progress, run_note = :run_note, run_reserved = :run_reserved, run_reason = :run_reason,
    lane = intent, lease_id = :lease, version = :version, commits = commits || :commits
WHERE id = :id AND version = coalesce(:before, version);

-- name: end_jobs
INSERT INTO ended_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, run_state,
    run_attempt, run_fence, run_worker, run_queued_at, run_started_at, run_ended_at, run_outcome,
    run_exit_code, run_error_class, run_error, run_session_id, run_cost, run_tokens_in,
    run_tokens_out, run_progress, run_note, run_reserved, run_reason, version, payload, commits
)
SELECT
    id, project, :state, :state_at, intent, :priority, :rank, root_id, task_id, parent_job_id,
    :queued_at, :not_before, :attempt, :lost, :fence, :nonce, :worker, :runs, :run_id,
    :cancel_reason, :plan_version, :replans, concurrency_key, :queue_deadline, :job_deadline,
    :error_class, :error, created_at, :ended_at, :resuming, :failures, :plan_wanted, :waited,
    :result, options, CASE WHEN run_id IS :run_id THEN run_state END, run_attempt, run_fence,
    run_worker, run_queued_at, run_started_at, run_ended_at, run_outcome, run_exit_code,
    run_error_class, run_error, run_session_id, run_cost, run_tokens_in, run_tokens_out,
    run_progress, run_note, run_reserved, run_reason, :version, payload, commits || :commits
FROM active_jobs
WHERE id = :id AND version = coalesce(:before, version);

-- name: end_jobs_with_runs
INSERT INTO ended_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, run_state,
    run_attempt, run_fence, run_worker, run_queued_at, run_started_at, run_ended_at, run_outcome,
    run_exit_code, run_error_class, run_error, run_session_id, run_cost, run_tokens_in,
    run_tokens_out, run_progress, run_note, run_reserved, run_reason, version, payload, commits
)
SELECT
    id, project, :state, :state_at, intent, :priority, :rank, root_id, task_id, parent_job_id,
    :queued_at, :not_before, :attempt, :lost, :fence, :nonce, :worker, :runs, :run_id,
    :cancel_reason, :plan_version, :replans, concurrency_key, :queue_deadline, :job_deadline,
    :error_class, :error, created_at, :ended_at, :resuming, :failures, :plan_wanted, :waited,
    :result, options, :run_state, :run_attempt, :run_fence, :run_worker, :run_queued_at,
    :run_started_at, :run_ended_at, :run_outcome, :run_exit_code, :run_error_class, :run_error,
    :run_session_id, :run_cost, :run_tokens_in, :run_tokens_out, :run_progress, :run_note,
    :run_reserved, :run_reason, :version, payload, commits || :commits
FROM active_jobs
WHERE id = :id AND version = coalesce(:before, version);

-- Plain jobs after their first claim, and after up to MAX_STEPS durable steps; see job_sets.py. The other columns follow
-- from the versions: if each event after the claim has recorded a checkpoint, nothing else has happened.
-- name: plain_runs
SELECT id, project, nonce,
    CASE
        WHEN task_id IS NULL THEN options
        ELSE (
            SELECT '["' || lifecycle || '",' || active_tasks.options || ',' || active_jobs.options || ']'
            FROM active_tasks
            WHERE active_tasks.id = task_id AND active_tasks.version = 3 AND parent_id IS NULL
                AND depends_on = '[]' AND budget IS NULL AND active_tasks.job_id = active_jobs.id
                AND NOT EXISTS (SELECT TRUE FROM dependencies WHERE dependencies.depends_on = active_tasks.id)
        )
    END AS plain,
    version - 4 AS steps
FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON active_jobs.id = wanted.value
WHERE version BETWEEN 4 AND 14 AND state = 'running' AND fence = 1 AND runs = 1 AND parent_job_id IS NULL
    AND not_before = 0 AND run_state = 'running' AND lease_id IS NOT NULL AND plain IS NOT NULL
    AND (
        version = 4
        OR version = 4 + (
            SELECT count(*) FROM checkpoints WHERE job_id = active_jobs.id AND kind = 'step'
        )
    );

-- The jobs of new checkpoints, if they are running under their first claim.
-- name: step_jobs
UPDATE active_jobs SET version = version + 1, commits = commits || :commits
WHERE id IN (SELECT value FROM carray(:ids)) AND fence = 1 AND run_state = 'running' AND lease_id IS NOT NULL
RETURNING id, version, nonce;

-- name: reopen_jobs
INSERT INTO active_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, run_state,
    run_attempt, run_fence, run_worker, run_queued_at, run_started_at, run_ended_at, run_outcome,
    run_exit_code, run_error_class, run_error, run_session_id, run_cost, run_tokens_in,
    run_tokens_out, run_progress, run_note, run_reserved, run_reason, version, payload, commits
)
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, run_state,
    run_attempt, run_fence, run_worker, run_queued_at, run_started_at, run_ended_at, run_outcome,
    run_exit_code, run_error_class, run_error, run_session_id, run_cost, run_tokens_in,
    run_tokens_out, run_progress, run_note, run_reserved, run_reason, version, payload, commits
FROM ended_jobs
WHERE id IN (SELECT value FROM carray(:ids));

-- name: delete_jobs
DELETE FROM active_jobs WHERE id IN (SELECT value FROM carray(:ids)) RETURNING lease_id;

-- name: delete_ended_jobs
DELETE FROM ended_jobs WHERE id IN (SELECT value FROM carray(:ids));

-- name: payloads
SELECT active_jobs.id, coalesce(active_tasks.payload, ended_tasks.payload, active_jobs.payload) AS payload
FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON active_jobs.id = wanted.value
    LEFT JOIN active_tasks ON active_tasks.id = active_jobs.task_id
    LEFT JOIN ended_tasks ON ended_tasks.id = active_jobs.task_id;

-- name: ended_payloads
SELECT ended_jobs.id, coalesce(active_tasks.payload, ended_tasks.payload, ended_jobs.payload) AS payload
FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON ended_jobs.id = wanted.value
    LEFT JOIN active_tasks ON active_tasks.id = ended_jobs.task_id
    LEFT JOIN ended_tasks ON ended_tasks.id = ended_jobs.task_id;

-- name: child_jobs
WITH RECURSIVE below (parent, child) AS (
    SELECT parent_job_id, id FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON parent_job_id = wanted.value
    UNION
    SELECT parent_job_id, id FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON parent_job_id = wanted.value
    UNION
    SELECT active_jobs.parent_job_id, active_jobs.id FROM below JOIN active_jobs ON active_jobs.parent_job_id = below.child
    UNION
    SELECT ended_jobs.parent_job_id, ended_jobs.id FROM below JOIN ended_jobs ON ended_jobs.parent_job_id = below.child
)
SELECT parent, child FROM below;
