-- Copies the rows of an earlier layout, removes its tables, and creates indexes and views. The log was converted
-- before; in a new database there is nothing to copy.

-- Nothing is removed that was not converted.
CREATE TABLE conversion (
    missing INTEGER NOT NULL,
    CONSTRAINT run_detent_db_upgrade_instead CHECK (missing = 0)
) STRICT;
INSERT INTO conversion (missing)
SELECT count(*)
FROM events
WHERE position > coalesce((SELECT max(id + events - 1) FROM commits), 0);
DROP TABLE conversion;

INSERT INTO leases (id, worker, until, held, jobs)
SELECT row_number() OVER (ORDER BY job_id), worker, lease_until, 1, json_array(job_id)
FROM queue
WHERE worker IS NOT NULL;

INSERT INTO active_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, ''
FROM tasks
WHERE state NOT IN ('done', 'completed', 'cancelled', 'budget_exceeded');

INSERT INTO ended_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, ''
FROM tasks
WHERE state IN ('done', 'completed', 'cancelled', 'budget_exceeded');

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
    jobs.id, jobs.project, jobs.state, jobs.state_at, jobs.intent, jobs.priority, jobs.rank,
    jobs.root_id, jobs.task_id, jobs.parent_job_id, jobs.queued_at, jobs.not_before, jobs.attempt,
    jobs.lost, jobs.fence, jobs.nonce, jobs.worker, jobs.runs, jobs.run_id, jobs.cancel_reason,
    jobs.plan_version, jobs.replans, jobs.concurrency_key, jobs.queue_deadline, jobs.job_deadline,
    jobs.error_class, jobs.error, jobs.created_at, jobs.ended_at, jobs.resuming, jobs.failures,
    jobs.plan_wanted, jobs.waited, jobs.result, jobs.options, jobs.version, jobs.payload, '',
    runs.state, runs.attempt, runs.fence, runs.worker, runs.queued_at, runs.started_at,
    runs.ended_at, runs.outcome, runs.exit_code, runs.error_class, runs.error, runs.session_id,
    runs.cost, runs.tokens_in, runs.tokens_out, runs.progress, runs.note, runs.reserved,
    runs.reason, queue.lane, queue.due_at, coalesce(queue.asleep, 0),
    CASE WHEN queue.worker IS NOT NULL THEN (SELECT id FROM leases WHERE leases.jobs = json_array(queue.job_id)) END
FROM jobs LEFT JOIN runs ON runs.id = jobs.run_id AND runs.step IS NULL AND jobs.state = 'running'
    LEFT JOIN queue ON queue.job_id = jobs.id
WHERE jobs.state NOT IN ('completed', 'failed', 'cancelled');

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
    jobs.id, jobs.project, jobs.state, jobs.state_at, jobs.intent, jobs.priority, jobs.rank,
    jobs.root_id, jobs.task_id, jobs.parent_job_id, jobs.queued_at, jobs.not_before, jobs.attempt,
    jobs.lost, jobs.fence, jobs.nonce, jobs.worker, jobs.runs, jobs.run_id, jobs.cancel_reason,
    jobs.plan_version, jobs.replans, jobs.concurrency_key, jobs.queue_deadline, jobs.job_deadline,
    jobs.error_class, jobs.error, jobs.created_at, jobs.ended_at, jobs.resuming, jobs.failures,
    jobs.plan_wanted, jobs.waited, jobs.result, jobs.options, jobs.version, jobs.payload, '',
    runs.state, runs.attempt, runs.fence, runs.worker, runs.queued_at, runs.started_at,
    runs.ended_at, runs.outcome, runs.exit_code, runs.error_class, runs.error, runs.session_id,
    runs.cost, runs.tokens_in, runs.tokens_out, runs.progress, runs.note, runs.reserved, runs.reason
FROM jobs LEFT JOIN runs ON runs.id = jobs.run_id AND runs.step IS NULL
WHERE jobs.state IN ('completed', 'failed', 'cancelled');

INSERT INTO other_runs (
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
)
SELECT
    runs.id, runs.job_id, runs.state, runs.attempt, runs.fence, runs.worker, runs.queued_at,
    runs.step, runs.started_at, runs.ended_at, runs.outcome, runs.exit_code, runs.error_class,
    runs.error, runs.session_id, runs.cost, runs.tokens_in, runs.tokens_out, runs.progress,
    runs.note, runs.reserved, runs.reason
FROM runs JOIN jobs ON jobs.id = runs.job_id
WHERE runs.step IS NOT NULL OR jobs.run_id IS NULL OR jobs.run_id <> runs.id
    OR jobs.state NOT IN ('running', 'completed', 'failed', 'cancelled');

-- Streams whose row was deleted.
INSERT INTO tombstones (stream, last_commit, commits)
SELECT stream, max(commit_id), ''
FROM stream_commits
WHERE stream <> '@system' AND NOT EXISTS (SELECT 1 FROM tasks WHERE id = stream)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = stream)
GROUP BY stream;

DROP VIEW questions;
DROP TABLE queue;
DROP TABLE runs;
DROP TABLE jobs;
DROP TABLE tasks;
DROP TABLE events;

-- ---- indexes ---------------------------------------------------------------------------------

-- Claimable work by lane and project; a claim never walks past work that it must leave.
CREATE INDEX active_jobs_by_lane ON active_jobs (lane, project, concurrency_key IS NOT NULL, rank)
WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0;
CREATE INDEX active_jobs_by_key ON active_jobs (lane, project, concurrency_key, rank)
WHERE lane IS NOT NULL AND lease_id IS NULL AND asleep = 0 AND concurrency_key IS NOT NULL;
CREATE INDEX active_jobs_asleep ON active_jobs (due_at) WHERE asleep = 1;
CREATE INDEX active_jobs_leased_keys ON active_jobs (concurrency_key)
WHERE lease_id IS NOT NULL AND concurrency_key IS NOT NULL;
CREATE INDEX leases_until ON leases (until);

CREATE INDEX active_jobs_by_task ON active_jobs (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX ended_jobs_by_task ON ended_jobs (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX active_jobs_by_parent ON active_jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;
CREATE INDEX ended_jobs_by_parent ON ended_jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;

-- Lists. Ids end every index, because they are the primary key. An id may be chosen by the caller, so its order
-- is not that of time. Most jobs and runs end well, and a list of those alone is not needed.
CREATE INDEX active_jobs_by_state ON active_jobs (state, created_at);
CREATE INDEX ended_jobs_by_time ON ended_jobs (created_at);
CREATE INDEX ended_jobs_by_state ON ended_jobs (state, created_at) WHERE state <> 'completed';

CREATE INDEX ended_jobs_run_queued ON ended_jobs (run_queued_at) WHERE run_state IS NOT NULL;
CREATE INDEX ended_jobs_run_ended ON ended_jobs (run_ended_at) WHERE run_state IS NOT NULL;
CREATE INDEX ended_jobs_run_state ON ended_jobs (run_state, run_queued_at)
WHERE run_state NOT IN ('queued', 'running', 'succeeded');
CREATE INDEX other_runs_queued ON other_runs (queued_at, id);
CREATE INDEX other_runs_ended ON other_runs (ended_at, id);
CREATE INDEX other_runs_by_state ON other_runs (state, queued_at, id)
WHERE state NOT IN ('queued', 'running', 'succeeded');

CREATE INDEX active_tasks_by_parent ON active_tasks (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX active_tasks_by_time ON active_tasks (created_at);
CREATE INDEX active_tasks_by_state ON active_tasks (state, created_at);
CREATE INDEX active_tasks_by_state_time ON active_tasks (state, state_at);
CREATE INDEX active_tasks_by_project ON active_tasks (project, created_at);
CREATE INDEX active_tasks_by_intent ON active_tasks (intent, created_at);
CREATE INDEX active_tasks_by_priority ON active_tasks (priority);

CREATE INDEX ended_tasks_by_parent ON ended_tasks (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX ended_tasks_by_time ON ended_tasks (created_at);
CREATE INDEX ended_tasks_by_state ON ended_tasks (state, created_at);
CREATE INDEX ended_tasks_by_state_time ON ended_tasks (state, state_at);
CREATE INDEX ended_tasks_by_project ON ended_tasks (project, created_at);
CREATE INDEX ended_tasks_by_intent ON ended_tasks (intent, created_at);
CREATE INDEX ended_tasks_by_priority ON ended_tasks (priority);

-- SQLite chooses a query plan by these figures. They are those of a large database and never change, so that a
-- plan does not depend on when it was made.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('active_jobs', 'active_jobs', '1000000 1'),
    ('active_jobs', 'active_jobs_by_task', '500000 2 1'),
    ('active_jobs', 'active_jobs_by_parent', '100000 5 1'),
    ('ended_jobs', 'ended_jobs', '1000000 1'),
    ('ended_jobs', 'ended_jobs_by_task', '500000 2 1'),
    ('ended_jobs', 'ended_jobs_by_parent', '100000 5 1'),
    ('active_tasks', 'active_tasks', '1000000 1'),
    ('active_tasks', 'active_tasks_by_parent', '100000 5 1'),
    ('active_tasks', 'active_tasks_by_time', '1000000 10 1'),
    ('active_tasks', 'active_tasks_by_state', '1000000 200000 10 1'),
    ('active_tasks', 'active_tasks_by_state_time', '1000000 200000 10 1'),
    ('active_tasks', 'active_tasks_by_project', '1000000 100000 10 1'),
    ('active_tasks', 'active_tasks_by_intent', '1000000 100000 10 1'),
    ('active_tasks', 'active_tasks_by_priority', '1000000 250000 1'),
    ('ended_tasks', 'ended_tasks', '1000000 1'),
    ('ended_tasks', 'ended_tasks_by_parent', '100000 5 1'),
    ('ended_tasks', 'ended_tasks_by_time', '1000000 10 1'),
    ('ended_tasks', 'ended_tasks_by_state', '1000000 200000 10 1'),
    ('ended_tasks', 'ended_tasks_by_state_time', '1000000 200000 10 1'),
    ('ended_tasks', 'ended_tasks_by_project', '1000000 100000 10 1'),
    ('ended_tasks', 'ended_tasks_by_intent', '1000000 100000 10 1'),
    ('ended_tasks', 'ended_tasks_by_priority', '1000000 250000 1'),
    ('active_jobs', 'active_jobs_by_state', '1000000 200000 10 1'),
    ('active_jobs', 'active_jobs_by_lane', '1000000 100000 50000 25000 5 1'),
    ('active_jobs', 'active_jobs_by_key', '100000 50000 25000 50 5 1'),
    ('active_jobs', 'active_jobs_asleep', '100000 5 1'),
    ('active_jobs', 'active_jobs_leased_keys', '1000 2 1'),
    ('ended_jobs', 'ended_jobs_by_time', '1000000 10 1'),
    ('ended_jobs', 'ended_jobs_by_state', '50000 25000 10 1'),
    ('ended_jobs', 'ended_jobs_run_queued', '1000000 10 1'),
    ('ended_jobs', 'ended_jobs_run_ended', '1000000 10 1'),
    ('ended_jobs', 'ended_jobs_run_state', '50000 16666 10 1'),
    ('other_runs', 'other_runs', '1000000 3 1'),
    ('other_runs', 'other_runs_queued', '1000000 10 1 1'),
    ('other_runs', 'other_runs_ended', '1000000 10 1 1'),
    ('other_runs', 'other_runs_by_state', '50000 16666 10 1 1'),
    ('task_tags', 'task_tags', '1000000 10000 10 1');

-- ---- tags ------------------------------------------------------------------------------------

-- A task keeps its tags when its row moves between the tables.
CREATE TRIGGER task_tags_of_a_new_active_task AFTER INSERT ON active_tasks WHEN NEW.tags <> '[]'
BEGIN
    INSERT OR IGNORE INTO task_tags (tag, at, task_id)
    SELECT value, NEW.created_at, NEW.id FROM json_each(NEW.tags);
END;

CREATE TRIGGER task_tags_of_an_edited_active_task AFTER UPDATE OF tags ON active_tasks WHEN OLD.tags <> NEW.tags
BEGIN
    DELETE FROM task_tags
    WHERE (tag, at, task_id) IN (SELECT value, OLD.created_at, OLD.id FROM json_each(OLD.tags));
    INSERT OR IGNORE INTO task_tags (tag, at, task_id)
    SELECT value, NEW.created_at, NEW.id FROM json_each(NEW.tags);
END;

CREATE TRIGGER task_tags_of_a_deleted_active_task AFTER DELETE ON active_tasks
WHEN OLD.tags <> '[]' AND NOT EXISTS (SELECT 1 FROM ended_tasks WHERE id = OLD.id)
BEGIN
    DELETE FROM task_tags
    WHERE (tag, at, task_id) IN (SELECT value, OLD.created_at, OLD.id FROM json_each(OLD.tags));
END;

CREATE TRIGGER task_tags_of_a_new_ended_task AFTER INSERT ON ended_tasks WHEN NEW.tags <> '[]'
BEGIN
    INSERT OR IGNORE INTO task_tags (tag, at, task_id)
    SELECT value, NEW.created_at, NEW.id FROM json_each(NEW.tags);
END;

CREATE TRIGGER task_tags_of_an_edited_ended_task AFTER UPDATE OF tags ON ended_tasks WHEN OLD.tags <> NEW.tags
BEGIN
    DELETE FROM task_tags
    WHERE (tag, at, task_id) IN (SELECT value, OLD.created_at, OLD.id FROM json_each(OLD.tags));
    INSERT OR IGNORE INTO task_tags (tag, at, task_id)
    SELECT value, NEW.created_at, NEW.id FROM json_each(NEW.tags);
END;

CREATE TRIGGER task_tags_of_a_deleted_ended_task AFTER DELETE ON ended_tasks
WHEN OLD.tags <> '[]' AND NOT EXISTS (SELECT 1 FROM active_tasks WHERE id = OLD.id)
BEGIN
    DELETE FROM task_tags
    WHERE (tag, at, task_id) IN (SELECT value, OLD.created_at, OLD.id FROM json_each(OLD.tags));
END;

-- ---- views -----------------------------------------------------------------------------------

CREATE VIEW tasks AS
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags
FROM active_tasks
UNION ALL
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags
FROM ended_tasks;

-- One part for each state: each is in the order of an index, and they are merged.
CREATE VIEW jobs AS
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
FROM active_jobs
WHERE state = 'queued'
UNION ALL
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
FROM active_jobs
WHERE state = 'running'
UNION ALL
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
FROM active_jobs
WHERE state = 'waiting'
UNION ALL
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
FROM active_jobs
WHERE state = 'parked'
UNION ALL
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
FROM active_jobs
WHERE state = 'retrying'
UNION ALL
SELECT
    id, project, state, state_at, intent, priority, rank, root_id, task_id, parent_job_id,
    queued_at, not_before, attempt, lost, fence, nonce, worker, runs, run_id, cancel_reason,
    plan_version, replans, concurrency_key, queue_deadline, job_deadline, error_class, error,
    created_at, ended_at, resuming, failures, plan_wanted, waited, result, options, version, payload
FROM ended_jobs;

CREATE VIEW runs AS
SELECT
    run_id AS id, id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, CAST(NULL AS TEXT) AS step, run_started_at AS
    started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM active_jobs
WHERE run_state IS NOT NULL AND state = 'running'
UNION ALL
SELECT
    run_id AS id, id AS job_id, run_state AS state, run_attempt AS attempt, run_fence AS fence,
    run_worker AS worker, run_queued_at AS queued_at, CAST(NULL AS TEXT) AS step, run_started_at AS
    started_at, run_ended_at AS ended_at, run_outcome AS outcome, run_exit_code AS exit_code,
    run_error_class AS error_class, run_error AS error, run_session_id AS session_id, run_cost AS
    cost, run_tokens_in AS tokens_in, run_tokens_out AS tokens_out, run_progress AS progress,
    run_note AS note, run_reserved AS reserved, run_reason AS reason
FROM ended_jobs
WHERE run_state IS NOT NULL
UNION ALL
SELECT
    id, job_id, state, attempt, fence, worker, queued_at, step, started_at, ended_at, outcome,
    exit_code, error_class, error, session_id, cost, tokens_in, tokens_out, progress, note,
    reserved, reason
FROM other_runs;

-- Work that can be claimed, now or later, and work that a worker has claimed.
CREATE VIEW queue AS
SELECT id AS job_id, root_id, project, intent, rank, due_at, concurrency_key, lane,
    CAST(NULL AS TEXT) AS worker, CAST(0 AS INTEGER) AS fence, CAST(NULL AS INTEGER) AS lease_until
FROM active_jobs
WHERE lane IS NOT NULL AND lease_id IS NULL
UNION ALL
SELECT active_jobs.id, active_jobs.root_id, active_jobs.project, active_jobs.intent,
    active_jobs.rank, active_jobs.due_at, active_jobs.concurrency_key, active_jobs.lane,
    active_jobs.worker, active_jobs.fence, leases.until
FROM leases CROSS JOIN json_each(leases.jobs) AS claimed
    CROSS JOIN active_jobs ON active_jobs.id = claimed.value AND active_jobs.lease_id = leases.id;

CREATE VIEW questions AS
SELECT waits.job_id, waits.name, waits.kind, waits.begun_at, waits.step, waits.due_at, waits.detail,
    active_jobs.project, active_jobs.intent, active_jobs.priority, active_jobs.state
FROM waits JOIN active_jobs ON active_jobs.id = waits.job_id
WHERE waits.kind IN ('question', 'confirmation', 'budget') AND active_jobs.task_id IS NULL;

-- The log event by event, for auditors. The shell `sqlite3` has the function that decompresses. Digests are
-- hexadecimal, because older versions of the shell cannot convert them. In a template, the characters U+E000 i
-- represent the id in a row, and U+E000 v and U+E000 w in quotes its values: see store/commit_body.py.
CREATE VIEW events AS
WITH parts (commit_id, at, part, content) AS (
    SELECT commits.id, commits.at, part.key, part.value
    FROM commits, json_each(CAST(sqlar_uncompress(commits.body, commits.size) AS TEXT)) AS part
)
SELECT
    commit_id + row_number() OVER (PARTITION BY commit_id ORDER BY part, place, stream_group, entry) - 1
        AS position,
    stream, version, project, name, schema, subject, at, actor, data, digest
FROM (
    SELECT
        commit_id, part, 0 AS place, 0 AS stream_group, entry.key AS entry,
        content ->> 0 AS stream,
        (content ->> 1) + entry.key AS version,
        content ->> 2 AS project,
        entry.value ->> 0 AS name,
        entry.value ->> 1 AS schema,
        entry.value ->> 2 AS subject,
        coalesce(entry.value ->> 5, parts.at) AS at,
        entry.value ->> 3 AS actor,
        CASE WHEN entry.value ->> 6 IS NULL THEN entry.value -> 4 ELSE '' END AS data,
        entry.value ->> 6 AS digest
    FROM parts, json_each(content, '$[3]') AS entry
    UNION ALL
    SELECT
        commit_id, part, own.key, stream_group.key, entry.key,
        replace(stream_group.value ->> 0, char(57344) || 'i', own.value ->> 0),
        (stream_group.value ->> 1) + entry.key,
        stream_group.value ->> 2,
        entry.value ->> 0,
        entry.value ->> 1,
        replace(entry.value ->> 2, char(57344) || 'i', own.value ->> 0),
        parts.at,
        entry.value ->> 3,
        replace(
            replace(
                replace(entry.value ->> 4, char(57344) || 'i', own.value ->> 0),
                '"' || char(57344) || 'w"', coalesce(own.value -> 2, 'null')
            ),
            '"' || char(57344) || 'v"', coalesce(own.value -> 1, 'null')
        ),
        NULL
    FROM parts, json_each(content, '$[1]') AS own, json_each(content, '$[0]') AS stream_group,
        json_each(stream_group.value, '$[3]') AS entry
    WHERE json_type(content, '$[0]') = 'array'
);
