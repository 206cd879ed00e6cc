-- Differs because: SQLite takes a list as an array in memory (carray), and writes fastest with one short
-- statement for each row; with a database server every statement costs a round trip.

-- name: jobs
SELECT id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version
FROM carray(:ids) AS wanted CROSS JOIN jobs ON jobs.id = wanted.value;

-- name: insert_jobs
INSERT INTO jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
) VALUES (
    :id, :project, :state, :state_at, :intent, :priority, :rank, :root_id, :task_id, :parent_job_id,
    :queued_at, :not_before, :attempt, :lost, :fence, :nonce, :worker, :runs, :run_id,
    :cancel_reason, :plan_version, :replans, :concurrency_key, :queue_deadline, :job_deadline,
    :error_class, :error, :created_at, :ended_at, :resuming, :failures, :plan_wanted, :waited,
    :result, :options, :version, :payload
);

-- name: update_jobs
UPDATE jobs SET
    state = :state, state_at = :state_at, priority = :priority, rank = :rank,
    queued_at = :queued_at, not_before = :not_before,
    attempt = :attempt, lost = :lost, fence = :fence, nonce = :nonce, worker = :worker,
    runs = :runs, run_id = :run_id, cancel_reason = :cancel_reason, plan_version = :plan_version,
    replans = :replans, queue_deadline = :queue_deadline, job_deadline = :job_deadline,
    error_class = :error_class, error = :error, ended_at = :ended_at, resuming = :resuming,
    failures = :failures, plan_wanted = :plan_wanted, waited = :waited, result = :result,
    version = :version
WHERE id = :id;

-- name: payloads
SELECT jobs.id, coalesce(tasks.payload, jobs.payload) AS payload
FROM carray(:ids) AS wanted CROSS JOIN jobs ON jobs.id = wanted.value
    LEFT JOIN tasks ON tasks.id = jobs.task_id;

-- name: child_jobs
WITH RECURSIVE below (parent, child) AS (
    SELECT parent_job_id, id FROM carray(:ids) AS wanted CROSS JOIN jobs ON parent_job_id = wanted.value
    UNION
    SELECT jobs.parent_job_id, jobs.id FROM below JOIN jobs ON jobs.parent_job_id = below.child
)
SELECT parent, child FROM below;

-- name: delete_jobs
DELETE FROM jobs WHERE id IN (SELECT value FROM carray(:ids));
