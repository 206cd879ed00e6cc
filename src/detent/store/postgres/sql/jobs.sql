-- Differs because: every statement costs a round trip to the server, so that one statement takes a whole set,
-- as one JSON parameter.
--
-- A plan is made once and kept while tables grow, so it must not depend on how large they were: a set is always
-- walked row by row, and each row looked up by its key. In reads LATERAL does that, where OFFSET 0 keeps the
-- order. In writes it is MERGE with a branch for rows that are not there: it keeps the order too, and is
-- never taken, because every given row has its key.

-- name: jobs
SELECT jobs.id, jobs.project, jobs.state, jobs.state_at, jobs.intent, jobs.priority, jobs.rank,
    jobs.root_id, jobs.task_id, jobs.parent_job_id, jobs.queued_at, jobs.not_before, jobs.attempt,
    jobs.lost, jobs.fence, jobs.nonce, jobs.worker, jobs.runs, jobs.run_id, jobs.cancel_reason,
    jobs.plan_version, jobs.replans, jobs.concurrency_key, jobs.queue_deadline, jobs.job_deadline,
    jobs.error_class, jobs.error, jobs.created_at, jobs.ended_at, jobs.resuming, jobs.failures,
    jobs.plan_wanted, jobs.waited, jobs.result, jobs.options, jobs.version
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = wanted.id OFFSET 0) AS jobs;

-- name: insert_jobs
INSERT INTO jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
)
SELECT
    given.id, given.project, given.state, given.state_at, given.intent, given.priority, given.rank,
    given.root_id, given.task_id, given.parent_job_id, given.queued_at, given.not_before,
    given.attempt, given.lost, given.fence, given.nonce, given.worker, given.runs, given.run_id,
    given.cancel_reason, given.plan_version, given.replans, given.concurrency_key,
    given.queue_deadline, given.job_deadline, given.error_class, given.error, given.created_at,
    given.ended_at, given.resuming, given.failures, given.plan_wanted, given.waited, given.result,
    given.options, given.version, given.payload
FROM json_populate_recordset(NULL::jobs, :rows) AS given;

-- name: update_jobs
MERGE INTO jobs USING json_populate_recordset(NULL::jobs, :rows) AS given
ON jobs.id = given.id
WHEN MATCHED THEN UPDATE SET
    state = given.state, state_at = given.state_at, priority = given.priority, rank = given.rank,
    queued_at = given.queued_at, not_before = given.not_before, attempt = given.attempt,
    lost = given.lost, fence = given.fence,
    nonce = given.nonce, worker = given.worker, runs = given.runs, run_id = given.run_id,
    cancel_reason = given.cancel_reason, plan_version = given.plan_version, replans = given.replans,
    queue_deadline = given.queue_deadline, job_deadline = given.job_deadline,
    error_class = given.error_class, error = given.error, ended_at = given.ended_at,
    resuming = given.resuming, failures = given.failures, plan_wanted = given.plan_wanted,
    waited = given.waited, result = given.result, version = given.version
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (given.id);

-- name: payloads
SELECT jobs.id, coalesce(tasks.payload, jobs.payload) AS payload
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = wanted.id OFFSET 0) AS jobs
LEFT JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id = jobs.task_id OFFSET 0) AS tasks ON true;

-- name: child_jobs
WITH RECURSIVE below (parent, child) AS (
    SELECT jobs.parent_job_id, jobs.id
    FROM json_array_elements_text(:ids) AS wanted (id)
    CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.parent_job_id = wanted.id OFFSET 0) AS jobs
    UNION
    SELECT jobs.parent_job_id, jobs.id
    FROM below
    CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.parent_job_id = below.child OFFSET 0) AS jobs
)
SELECT parent, child FROM below;

-- name: delete_jobs
MERGE INTO jobs USING json_array_elements_text(:ids) AS gone (id) ON jobs.id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (id) VALUES (gone.id);
