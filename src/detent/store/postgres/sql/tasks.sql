-- Differs because: every statement costs a round trip to the server, so that one statement takes a whole set,
-- as one JSON parameter.
-- jobs.sql explains how query plans are kept stable, and how versions are checked.

-- name: tasks
SELECT
    tasks.id, tasks.project, tasks.lifecycle, tasks.state, tasks.state_at, tasks.intent,
    tasks.source, tasks.priority, tasks.root_id, tasks.parent_id, tasks.depth, tasks.jobs,
    tasks.job_id, tasks.open_dependencies, tasks.failed_dependency, tasks.open_subtasks,
    tasks.subtasks, tasks.failed_subtask, tasks.blocked_by, tasks.retries_left, tasks.rounds,
    tasks.comment, tasks.session_id, tasks.budget, tasks.spent, tasks.cancel_reason,
    tasks.created_by, tasks.created_at, tasks.depends_on, tasks.settled, tasks.blocked_detail,
    tasks.answered, tasks.options, tasks.version, tasks.ended
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT
        id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id,
        depth, jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks,
        failed_subtask, blocked_by, retries_left, rounds, comment, session_id, budget, spent,
        cancel_reason, created_by, created_at, depends_on, settled, blocked_detail, answered,
        options, version,
        false AS ended
    FROM active_tasks WHERE active_tasks.id = wanted.id
    UNION ALL
    SELECT
        id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id,
        depth, jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks,
        failed_subtask, blocked_by, retries_left, rounds, comment, session_id, budget, spent,
        cancel_reason, created_by, created_at, depends_on, settled, blocked_detail, answered,
        options, version,
        true AS ended
    FROM ended_tasks WHERE ended_tasks.id = wanted.id
    OFFSET 0
) AS tasks;

-- `project` is NULL if there is such an ended row, and `version` if its stream is deleted: both are refused.
-- name: insert_active_tasks
INSERT INTO active_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    given.id, CASE WHEN there.id IS NULL THEN given.project END, given.lifecycle, given.state,
    given.state_at, given.intent, given.source, given.priority, given.root_id, given.parent_id,
    given.depth, given.jobs, given.job_id, given.open_dependencies, given.failed_dependency,
    given.open_subtasks, given.subtasks, given.failed_subtask, given.blocked_by, given.retries_left,
    given.rounds, given.comment, given.session_id, given.budget, given.spent, given.cancel_reason,
    given.created_by, given.created_at, given.depends_on, given.settled, given.blocked_detail,
    given.answered, given.options, CASE WHEN gone.stream IS NULL THEN given.version END,
    given.title, given.payload, given.tags,
    CASE WHEN given.part IS NULL THEN '' ELSE (current_setting('detent.commit')::bigint + given.part)::text END
FROM json_populate_recordset(NULL::task_change, :rows) AS given
LEFT JOIN LATERAL (SELECT id FROM ended_tasks WHERE ended_tasks.id = given.id OFFSET 0) AS there ON true
LEFT JOIN LATERAL (
    SELECT stream FROM tombstones WHERE tombstones.stream = given.id OFFSET 0
) AS gone ON true;

-- name: insert_ended_tasks
INSERT INTO ended_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    given.id, CASE WHEN there.id IS NULL THEN given.project END, given.lifecycle, given.state,
    given.state_at, given.intent, given.source, given.priority, given.root_id, given.parent_id,
    given.depth, given.jobs, given.job_id, given.open_dependencies, given.failed_dependency,
    given.open_subtasks, given.subtasks, given.failed_subtask, given.blocked_by, given.retries_left,
    given.rounds, given.comment, given.session_id, given.budget, given.spent, given.cancel_reason,
    given.created_by, given.created_at, given.depends_on, given.settled, given.blocked_detail,
    given.answered, given.options, CASE WHEN gone.stream IS NULL THEN given.version END,
    given.title, given.payload, given.tags,
    CASE WHEN given.part IS NULL THEN '' ELSE (current_setting('detent.commit')::bigint + given.part)::text END
FROM json_populate_recordset(NULL::task_change, :rows) AS given
LEFT JOIN LATERAL (SELECT id FROM active_tasks WHERE active_tasks.id = given.id OFFSET 0) AS there ON true
LEFT JOIN LATERAL (
    SELECT stream FROM tombstones WHERE tombstones.stream = given.id OFFSET 0
) AS gone ON true;

-- name: update_active_tasks
MERGE INTO active_tasks AS was USING json_populate_recordset(NULL::task_change, :rows) AS given
ON was.id = given.id
WHEN MATCHED THEN UPDATE SET
    lifecycle = given.lifecycle, state = given.state, state_at = given.state_at,
    priority = given.priority, jobs = given.jobs,
    job_id = given.job_id, open_dependencies = given.open_dependencies,
    failed_dependency = given.failed_dependency, open_subtasks = given.open_subtasks,
    subtasks = given.subtasks, failed_subtask = given.failed_subtask, blocked_by = given.blocked_by,
    retries_left = given.retries_left, rounds = given.rounds, comment = given.comment,
    session_id = given.session_id, budget = given.budget, spent = given.spent,
    cancel_reason = given.cancel_reason, settled = given.settled,
    blocked_detail = given.blocked_detail, answered = given.answered, options = given.options,
    version = CASE WHEN given.before IS NULL OR was.version = given.before THEN given.version END,
    commits = CASE WHEN given.part IS NULL THEN was.commits
        ELSE was.commits || ',' || (current_setting('detent.commit')::bigint + given.part) END
WHEN NOT MATCHED THEN INSERT (id) VALUES (NULL);

-- name: update_ended_tasks
MERGE INTO ended_tasks AS was USING json_populate_recordset(NULL::task_change, :rows) AS given
ON was.id = given.id
WHEN MATCHED THEN UPDATE SET
    lifecycle = given.lifecycle, state = given.state, state_at = given.state_at,
    priority = given.priority, jobs = given.jobs,
    job_id = given.job_id, open_dependencies = given.open_dependencies,
    failed_dependency = given.failed_dependency, open_subtasks = given.open_subtasks,
    subtasks = given.subtasks, failed_subtask = given.failed_subtask, blocked_by = given.blocked_by,
    retries_left = given.retries_left, rounds = given.rounds, comment = given.comment,
    session_id = given.session_id, budget = given.budget, spent = given.spent,
    cancel_reason = given.cancel_reason, settled = given.settled,
    blocked_detail = given.blocked_detail, answered = given.answered, options = given.options,
    version = CASE WHEN given.before IS NULL OR was.version = given.before THEN given.version END,
    commits = CASE WHEN given.part IS NULL THEN was.commits
        ELSE was.commits || ',' || (current_setting('detent.commit')::bigint + given.part) END
WHEN NOT MATCHED THEN INSERT (id) VALUES (NULL);

-- A row that moves keeps its payload and its commits. The next statement deletes it where it was.
-- name: end_tasks
INSERT INTO ended_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    was.id, was.project, given.lifecycle, given.state, given.state_at, was.intent, was.source,
    given.priority, was.root_id, was.parent_id, was.depth, given.jobs, given.job_id,
    given.open_dependencies, given.failed_dependency, given.open_subtasks, given.subtasks,
    given.failed_subtask, given.blocked_by, given.retries_left, given.rounds, given.comment,
    given.session_id, given.budget, given.spent, given.cancel_reason, was.created_by,
    was.created_at, was.depends_on, given.settled, given.blocked_detail, given.answered,
    given.options,
    CASE WHEN given.before IS NULL OR was.version = given.before THEN given.version END, was.title,
    was.payload, was.tags,
    CASE WHEN given.part IS NULL THEN was.commits
        ELSE was.commits || ',' || (current_setting('detent.commit')::bigint + given.part) END
FROM json_populate_recordset(NULL::task_change, :rows) AS given
LEFT JOIN LATERAL (SELECT * FROM active_tasks WHERE active_tasks.id = given.id OFFSET 0) AS was ON true;

-- name: remove_active_tasks
MERGE INTO active_tasks AS was USING json_to_recordset(:rows) AS given (id text, before integer)
ON was.id = given.id
WHEN MATCHED AND (given.before IS NULL OR was.version = given.before) THEN DELETE
WHEN MATCHED THEN UPDATE SET version = NULL
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (NULL);

-- name: return_tasks
INSERT INTO active_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    was.id, was.project, given.lifecycle, given.state, given.state_at, was.intent, was.source,
    given.priority, was.root_id, was.parent_id, was.depth, given.jobs, given.job_id,
    given.open_dependencies, given.failed_dependency, given.open_subtasks, given.subtasks,
    given.failed_subtask, given.blocked_by, given.retries_left, given.rounds, given.comment,
    given.session_id, given.budget, given.spent, given.cancel_reason, was.created_by,
    was.created_at, was.depends_on, given.settled, given.blocked_detail, given.answered,
    given.options,
    CASE WHEN given.before IS NULL OR was.version = given.before THEN given.version END, was.title,
    was.payload, was.tags,
    CASE WHEN given.part IS NULL THEN was.commits
        ELSE was.commits || ',' || (current_setting('detent.commit')::bigint + given.part) END
FROM json_populate_recordset(NULL::task_change, :rows) AS given
LEFT JOIN LATERAL (SELECT * FROM ended_tasks WHERE ended_tasks.id = given.id OFFSET 0) AS was ON true;

-- name: remove_ended_tasks
MERGE INTO ended_tasks AS was USING json_to_recordset(:rows) AS given (id text, before integer)
ON was.id = given.id
WHEN MATCHED AND (given.before IS NULL OR was.version = given.before) THEN DELETE
WHEN MATCHED THEN UPDATE SET version = NULL
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (NULL);

-- name: edit_active_tasks
MERGE INTO active_tasks AS was USING json_populate_recordset(NULL::task_change, :rows) AS given
ON was.id = given.id
WHEN MATCHED THEN UPDATE SET
    title = coalesce(given.title, was.title), payload = coalesce(given.payload, was.payload),
    tags = coalesce(given.tags, was.tags)
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (NULL);

-- name: edit_ended_tasks
MERGE INTO ended_tasks AS was USING json_populate_recordset(NULL::task_change, :rows) AS given
ON was.id = given.id
WHEN MATCHED THEN UPDATE SET
    title = coalesce(given.title, was.title), payload = coalesce(given.payload, was.payload),
    tags = coalesce(given.tags, was.tags)
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (NULL);

-- name: insert_dependencies
INSERT INTO dependencies (task_id, depends_on)
SELECT given.task_id, given.depends_on
FROM json_populate_recordset(NULL::dependencies, :rows) AS given;

-- Includes the root of each dependent task: a writer locks it before it changes anything there.
-- name: dependents
SELECT dependencies.depends_on, dependencies.task_id, tasks.root_id
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM dependencies WHERE dependencies.depends_on = wanted.id OFFSET 0
) AS dependencies
CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id = dependencies.task_id OFFSET 0) AS tasks;

-- name: children
WITH RECURSIVE below (parent, child) AS (
    SELECT tasks.parent_id, tasks.id
    FROM json_array_elements_text(:ids) AS wanted (id)
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.parent_id = wanted.id OFFSET 0) AS tasks
    UNION
    SELECT tasks.parent_id, tasks.id
    FROM below
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.parent_id = below.child OFFSET 0) AS tasks
)
SELECT parent, child FROM below;

-- name: jobs_of_task
SELECT jobs.id
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.task_id = wanted.id OFFSET 0) AS jobs;

-- name: delete_dependencies
MERGE INTO dependencies USING json_array_elements_text(:ids) AS gone (id) ON dependencies.task_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (task_id) VALUES (gone.id);
