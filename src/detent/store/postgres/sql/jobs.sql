-- Differs because: every statement costs a round trip to the server, so that one statement takes a whole set,
-- as one JSON parameter.
--
-- A plan is made once and kept while tables grow, so it must not depend on how large they were: a set is always
-- read row by row, and each row looked up by its key. In reads LATERAL does that, where OFFSET 0 keeps the
-- order. In writes it is MERGE with a branch for rows that are not there, or a LEFT JOIN LATERAL.
--
-- A row has the version of its stream. A statement that finds another version than the given one, or no row, sets a
-- column to NULL that must not be NULL: the server refuses it, and `error_mapping` says what that means.

-- name: jobs
SELECT
    jobs.id, jobs.project, jobs.state, jobs.state_at, jobs.intent, jobs.priority, jobs.rank,
    jobs.root_id, jobs.task_id, jobs.parent_job_id, jobs.queued_at, jobs.not_before, jobs.attempt,
    jobs.lost, jobs.fence, jobs.nonce, jobs.worker, jobs.runs, jobs.run_id, jobs.cancel_reason,
    jobs.plan_version, jobs.replans, jobs.concurrency_key, jobs.queue_deadline, jobs.job_deadline,
    jobs.error_class, jobs.error, jobs.created_at, jobs.ended_at, jobs.resuming, jobs.failures,
    jobs.plan_wanted, jobs.waited, jobs.result, jobs.options, jobs.version, jobs.ended
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT
        id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
        queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
        plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
        created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
        false AS ended
    FROM active_jobs WHERE active_jobs.id = wanted.id
    UNION ALL
    SELECT
        id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
        queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
        plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
        created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
        true AS ended
    FROM ended_jobs WHERE ended_jobs.id = wanted.id
    OFFSET 0
) AS jobs;

-- `project` is NULL if there is such an ended row, and `version` if its stream is deleted: both are refused.
-- name: insert_active_jobs
INSERT INTO active_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
    payload, commits, run_state, run_attempt, run_fence, run_worker, run_queued_at, run_started_at,
    run_ended_at, run_outcome, run_exit_code, run_error_class, run_error, run_session_id, run_cost,
    run_tokens_in, run_tokens_out, run_progress, run_note, run_reserved, run_reason, lane, due_at,
    asleep, lease_id
)
SELECT
    given.id, CASE WHEN there.id IS NULL THEN given.project END, given.state, given.state_at,
    given.intent, given.priority, given.rank, given.root_id, given.task_id, given.parent_job_id,
    given.queued_at, given.not_before, given.attempt, given.lost, given.fence, given.nonce,
    given.worker, given.runs, given.run_id, given.cancel_reason, given.plan_version, given.replans,
    given.concurrency_key, given.queue_deadline, given.job_deadline, given.error_class, given.error,
    given.created_at, given.ended_at, given.resuming, given.failures, given.plan_wanted,
    given.waited, given.result, given.options, CASE WHEN gone.stream IS NULL THEN given.version END,
    given.payload,
    CASE WHEN given.part IS NULL THEN '' ELSE (current_setting('detent.commit')::bigint + given.part)::text END,
    given.run_state, given.run_attempt, given.run_fence, given.run_worker, given.run_queued_at,
    given.run_started_at, given.run_ended_at, given.run_outcome, given.run_exit_code,
    given.run_error_class, given.run_error, given.run_session_id, given.run_cost,
    given.run_tokens_in, given.run_tokens_out, given.run_progress, given.run_note,
    given.run_reserved, given.run_reason, given.lane, given.due_at, coalesce(given.asleep, false),
    given.lease_id
FROM json_populate_recordset(NULL::job_change, :rows) AS given
LEFT JOIN LATERAL (SELECT id FROM ended_jobs WHERE ended_jobs.id = given.id OFFSET 0) AS there ON true
LEFT JOIN LATERAL (
    SELECT stream FROM tombstones WHERE tombstones.stream = given.id OFFSET 0
) AS gone ON true;

-- name: insert_ended_jobs
INSERT INTO ended_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
    payload, commits, run_state, run_attempt, run_fence, run_worker, run_queued_at, run_started_at,
    run_ended_at, run_outcome, run_exit_code, run_error_class, run_error, run_session_id, run_cost,
    run_tokens_in, run_tokens_out, run_progress, run_note, run_reserved, run_reason
)
SELECT
    given.id, CASE WHEN there.id IS NULL THEN given.project END, given.state, given.state_at,
    given.intent, given.priority, given.rank, given.root_id, given.task_id, given.parent_job_id,
    given.queued_at, given.not_before, given.attempt, given.lost, given.fence, given.nonce,
    given.worker, given.runs, given.run_id, given.cancel_reason, given.plan_version, given.replans,
    given.concurrency_key, given.queue_deadline, given.job_deadline, given.error_class, given.error,
    given.created_at, given.ended_at, given.resuming, given.failures, given.plan_wanted,
    given.waited, given.result, given.options, CASE WHEN gone.stream IS NULL THEN given.version END,
    given.payload,
    CASE WHEN given.part IS NULL THEN '' ELSE (current_setting('detent.commit')::bigint + given.part)::text END,
    given.run_state, given.run_attempt, given.run_fence, given.run_worker, given.run_queued_at,
    given.run_started_at, given.run_ended_at, given.run_outcome, given.run_exit_code,
    given.run_error_class, given.run_error, given.run_session_id, given.run_cost,
    given.run_tokens_in, given.run_tokens_out, given.run_progress, given.run_note,
    given.run_reserved, given.run_reason
FROM json_populate_recordset(NULL::job_change, :rows) AS given
LEFT JOIN LATERAL (SELECT id FROM active_jobs WHERE active_jobs.id = given.id OFFSET 0) AS there ON true
LEFT JOIN LATERAL (
    SELECT stream FROM tombstones WHERE tombstones.stream = given.id OFFSET 0
) AS gone ON true;

-- name: update_active_jobs
MERGE INTO active_jobs AS was USING json_populate_recordset(NULL::job_change, :rows) AS given
ON was.id = given.id
WHEN MATCHED THEN UPDATE SET
    state = given.state, state_at = given.state_at, priority = given.priority, rank = given.rank,
    queued_at = given.queued_at, not_before = given.not_before, attempt = given.attempt,
    lost = given.lost, fence = given.fence, nonce = given.nonce, worker = given.worker,
    runs = given.runs, run_id = given.run_id, cancel_reason = given.cancel_reason,
    plan_version = given.plan_version, replans = given.replans,
    queue_deadline = given.queue_deadline, job_deadline = given.job_deadline,
    error_class = given.error_class, error = given.error, ended_at = given.ended_at,
    resuming = given.resuming, failures = given.failures, plan_wanted = given.plan_wanted,
    waited = given.waited, result = given.result,
    version = CASE WHEN given.before IS NULL OR was.version = given.before THEN given.version END,
    commits = CASE WHEN given.part IS NULL THEN was.commits
        ELSE was.commits || ',' || (current_setting('detent.commit')::bigint + given.part) END,
    run_state = CASE WHEN given.run THEN given.run_state WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_state END,
    run_attempt = CASE WHEN given.run THEN given.run_attempt WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_attempt END,
    run_fence = CASE WHEN given.run THEN given.run_fence WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_fence END,
    run_worker = CASE WHEN given.run THEN given.run_worker WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_worker END,
    run_queued_at = CASE WHEN given.run THEN given.run_queued_at WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_queued_at END,
    run_started_at = CASE WHEN given.run THEN given.run_started_at WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_started_at END,
    run_ended_at = CASE WHEN given.run THEN given.run_ended_at WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_ended_at END,
    run_outcome = CASE WHEN given.run THEN given.run_outcome WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_outcome END,
    run_exit_code = CASE WHEN given.run THEN given.run_exit_code WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_exit_code END,
    run_error_class = CASE WHEN given.run THEN given.run_error_class WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_error_class END,
    run_error = CASE WHEN given.run THEN given.run_error WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_error END,
    run_session_id = CASE WHEN given.run THEN given.run_session_id WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_session_id END,
    run_cost = CASE WHEN given.run THEN given.run_cost WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_cost END,
    run_tokens_in = CASE WHEN given.run THEN given.run_tokens_in WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_tokens_in END,
    run_tokens_out = CASE WHEN given.run THEN given.run_tokens_out WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_tokens_out END,
    run_progress = CASE WHEN given.run THEN given.run_progress WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_progress END,
    run_note = CASE WHEN given.run THEN given.run_note WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_note END,
    run_reserved = CASE WHEN given.run THEN given.run_reserved WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_reserved END,
    run_reason = CASE WHEN given.run THEN given.run_reason WHEN was.run_id = given.run_id AND given.state = 'running' THEN was.run_reason END,
    lane = CASE given.place WHEN 'queue' THEN given.lane WHEN 'out' THEN NULL ELSE was.lane END,
    due_at = CASE given.place WHEN 'queue' THEN given.due_at WHEN 'out' THEN NULL ELSE was.due_at END,
    asleep = CASE given.place WHEN 'queue' THEN given.asleep WHEN 'out' THEN false ELSE was.asleep END,
    lease_id = CASE WHEN given.place = 'lease' THEN given.lease_id WHEN given.place IS NULL THEN was.lease_id END
WHEN NOT MATCHED THEN INSERT (id) VALUES (NULL);

-- name: update_ended_jobs
MERGE INTO ended_jobs AS was USING json_populate_recordset(NULL::job_change, :rows) AS given
ON was.id = given.id
WHEN MATCHED THEN UPDATE SET
    state = given.state, state_at = given.state_at, priority = given.priority, rank = given.rank,
    queued_at = given.queued_at, not_before = given.not_before, attempt = given.attempt,
    lost = given.lost, fence = given.fence, nonce = given.nonce, worker = given.worker,
    runs = given.runs, run_id = given.run_id, cancel_reason = given.cancel_reason,
    plan_version = given.plan_version, replans = given.replans,
    queue_deadline = given.queue_deadline, job_deadline = given.job_deadline,
    error_class = given.error_class, error = given.error, ended_at = given.ended_at,
    resuming = given.resuming, failures = given.failures, plan_wanted = given.plan_wanted,
    waited = given.waited, result = given.result,
    version = CASE WHEN given.before IS NULL OR was.version = given.before THEN given.version END,
    commits = CASE WHEN given.part IS NULL THEN was.commits
        ELSE was.commits || ',' || (current_setting('detent.commit')::bigint + given.part) END,
    run_state = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_state WHEN was.run_id = given.run_id THEN was.run_state END,
    run_attempt = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_attempt WHEN was.run_id = given.run_id THEN was.run_attempt END,
    run_fence = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_fence WHEN was.run_id = given.run_id THEN was.run_fence END,
    run_worker = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_worker WHEN was.run_id = given.run_id THEN was.run_worker END,
    run_queued_at = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_queued_at WHEN was.run_id = given.run_id THEN was.run_queued_at END,
    run_started_at = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_started_at WHEN was.run_id = given.run_id THEN was.run_started_at END,
    run_ended_at = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_ended_at WHEN was.run_id = given.run_id THEN was.run_ended_at END,
    run_outcome = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_outcome WHEN was.run_id = given.run_id THEN was.run_outcome END,
    run_exit_code = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_exit_code WHEN was.run_id = given.run_id THEN was.run_exit_code END,
    run_error_class = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_error_class WHEN was.run_id = given.run_id THEN was.run_error_class END,
    run_error = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_error WHEN was.run_id = given.run_id THEN was.run_error END,
    run_session_id = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_session_id WHEN was.run_id = given.run_id THEN was.run_session_id END,
    run_cost = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_cost WHEN was.run_id = given.run_id THEN was.run_cost END,
    run_tokens_in = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_tokens_in WHEN was.run_id = given.run_id THEN was.run_tokens_in END,
    run_tokens_out = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_tokens_out WHEN was.run_id = given.run_id THEN was.run_tokens_out END,
    run_progress = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_progress WHEN was.run_id = given.run_id THEN was.run_progress END,
    run_note = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_note WHEN was.run_id = given.run_id THEN was.run_note END,
    run_reserved = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_reserved WHEN was.run_id = given.run_id THEN was.run_reserved END,
    run_reason = CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_reason WHEN was.run_id = given.run_id THEN was.run_reason END
WHEN NOT MATCHED THEN INSERT (id) VALUES (NULL);

-- A row that moves keeps its payload and its commits. The next statement deletes it where it was.
-- name: end_jobs
INSERT INTO ended_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
    payload, commits, run_state, run_attempt, run_fence, run_worker, run_queued_at, run_started_at,
    run_ended_at, run_outcome, run_exit_code, run_error_class, run_error, run_session_id, run_cost,
    run_tokens_in, run_tokens_out, run_progress, run_note, run_reserved, run_reason
)
SELECT
    was.id, was.project, given.state, given.state_at, was.intent, given.priority, given.rank,
    was.root_id, was.task_id, was.parent_job_id, given.queued_at, given.not_before, given.attempt,
    given.lost, given.fence, given.nonce, given.worker, given.runs, given.run_id,
    given.cancel_reason, given.plan_version, given.replans, was.concurrency_key,
    given.queue_deadline, given.job_deadline, given.error_class, given.error, was.created_at,
    given.ended_at, given.resuming, given.failures, given.plan_wanted, given.waited, given.result,
    was.options,
    CASE WHEN given.before IS NULL OR was.version = given.before THEN given.version END, was.payload,
    CASE WHEN given.part IS NULL THEN was.commits
        ELSE was.commits || ',' || (current_setting('detent.commit')::bigint + given.part) END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_state WHEN was.run_id = given.run_id THEN was.run_state END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_attempt WHEN was.run_id = given.run_id THEN was.run_attempt END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_fence WHEN was.run_id = given.run_id THEN was.run_fence END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_worker WHEN was.run_id = given.run_id THEN was.run_worker END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_queued_at WHEN was.run_id = given.run_id THEN was.run_queued_at END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_started_at WHEN was.run_id = given.run_id THEN was.run_started_at END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_ended_at WHEN was.run_id = given.run_id THEN was.run_ended_at END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_outcome WHEN was.run_id = given.run_id THEN was.run_outcome END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_exit_code WHEN was.run_id = given.run_id THEN was.run_exit_code END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_error_class WHEN was.run_id = given.run_id THEN was.run_error_class END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_error WHEN was.run_id = given.run_id THEN was.run_error END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_session_id WHEN was.run_id = given.run_id THEN was.run_session_id END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_cost WHEN was.run_id = given.run_id THEN was.run_cost END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_tokens_in WHEN was.run_id = given.run_id THEN was.run_tokens_in END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_tokens_out WHEN was.run_id = given.run_id THEN was.run_tokens_out END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_progress WHEN was.run_id = given.run_id THEN was.run_progress END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_note WHEN was.run_id = given.run_id THEN was.run_note END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_reserved WHEN was.run_id = given.run_id THEN was.run_reserved END,
    CASE WHEN given.run OR given.run IS NOT NULL AND was.run_state IS NOT NULL THEN given.run_reason WHEN was.run_id = given.run_id THEN was.run_reason END
FROM json_populate_recordset(NULL::job_change, :rows) AS given
LEFT JOIN LATERAL (SELECT * FROM active_jobs WHERE active_jobs.id = given.id OFFSET 0) AS was ON true;

-- name: remove_active_jobs
MERGE INTO active_jobs AS was USING json_to_recordset(:rows) AS given (id text, before integer)
ON was.id = given.id
WHEN MATCHED AND (given.before IS NULL OR was.version = given.before) THEN DELETE
WHEN MATCHED THEN UPDATE SET version = NULL
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (NULL);

-- name: return_jobs
INSERT INTO active_jobs (
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version,
    payload, commits, lane, due_at, asleep, lease_id
)
SELECT
    was.id, was.project, given.state, given.state_at, was.intent, given.priority, given.rank,
    was.root_id, was.task_id, was.parent_job_id, given.queued_at, given.not_before, given.attempt,
    given.lost, given.fence, given.nonce, given.worker, given.runs, given.run_id,
    given.cancel_reason, given.plan_version, given.replans, was.concurrency_key,
    given.queue_deadline, given.job_deadline, given.error_class, given.error, was.created_at,
    given.ended_at, given.resuming, given.failures, given.plan_wanted, given.waited, given.result,
    was.options,
    CASE WHEN given.before IS NULL OR was.version = given.before THEN given.version END, was.payload,
    CASE WHEN given.part IS NULL THEN was.commits
        ELSE was.commits || ',' || (current_setting('detent.commit')::bigint + given.part) END,
    given.lane, given.due_at, coalesce(given.asleep, false), NULL
FROM json_populate_recordset(NULL::job_change, :rows) AS given
LEFT JOIN LATERAL (SELECT * FROM ended_jobs WHERE ended_jobs.id = given.id OFFSET 0) AS was ON true;

-- name: remove_ended_jobs
MERGE INTO ended_jobs AS was USING json_to_recordset(:rows) AS given (id text, before integer)
ON was.id = given.id
WHEN MATCHED AND (given.before IS NULL OR was.version = given.before) THEN DELETE
WHEN MATCHED THEN UPDATE SET version = NULL
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (NULL);

-- Rows whose place in the queue changes, and nothing else.
-- name: place_jobs
MERGE INTO active_jobs AS was USING json_populate_recordset(NULL::job_change, :rows) AS given
ON was.id = given.id
WHEN MATCHED THEN UPDATE SET
    lane = CASE given.place WHEN 'queue' THEN given.lane WHEN 'out' THEN NULL ELSE was.lane END,
    due_at = CASE given.place WHEN 'queue' THEN given.due_at WHEN 'out' THEN NULL ELSE was.due_at END,
    asleep = CASE given.place WHEN 'queue' THEN given.asleep WHEN 'out' THEN false ELSE was.asleep END,
    lease_id = CASE WHEN given.place = 'lease' THEN given.lease_id END
WHEN NOT MATCHED AND given.place <> 'out' THEN INSERT (id) VALUES (NULL);

-- The run of a running job is in its row. It is copied when the job is not running any more, or the next one begins.
-- name: keep_runs
INSERT INTO other_runs (
    id, job_id, state, attempt, fence, worker, queued_at, started_at, ended_at, outcome, exit_code,
    error_class, error, session_id, cost, tokens_in, tokens_out, progress, note, reserved, reason
)
SELECT
    was.run_id, was.id, was.run_state, was.run_attempt, was.run_fence, was.run_worker,
    was.run_queued_at, was.run_started_at, was.run_ended_at, was.run_outcome, was.run_exit_code,
    was.run_error_class, was.run_error, was.run_session_id, was.run_cost, was.run_tokens_in,
    was.run_tokens_out, was.run_progress, was.run_note, was.run_reserved, was.run_reason
FROM json_to_recordset(:rows) AS given (id text, run_id text)
CROSS JOIN LATERAL (
    SELECT id, run_id, run_state, run_attempt, run_fence, run_worker, run_queued_at, run_started_at,
        run_ended_at, run_outcome, run_exit_code, run_error_class, run_error, run_session_id,
        run_cost, run_tokens_in, run_tokens_out, run_progress, run_note, run_reserved, run_reason
    FROM active_jobs WHERE active_jobs.id = given.id AND run_state IS NOT NULL
    UNION ALL
    SELECT id, run_id, run_state, run_attempt, run_fence, run_worker, run_queued_at, run_started_at,
        run_ended_at, run_outcome, run_exit_code, run_error_class, run_error, run_session_id,
        run_cost, run_tokens_in, run_tokens_out, run_progress, run_note, run_reserved, run_reason
    FROM ended_jobs WHERE ended_jobs.id = given.id AND run_state IS NOT NULL
    OFFSET 0
) AS was
WHERE was.run_id IS DISTINCT FROM given.run_id
ON CONFLICT (id) DO NOTHING;

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
