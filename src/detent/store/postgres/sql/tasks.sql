-- Differs because: every statement costs a round trip to the server, so that one statement takes a whole set,
-- as one JSON parameter.
-- jobs.sql explains how query plans are kept stable.

-- name: tasks
SELECT tasks.id, tasks.project, tasks.lifecycle, tasks.state, tasks.state_at, tasks.intent,
    tasks.source, tasks.priority, tasks.root_id, tasks.parent_id, tasks.depth, tasks.jobs,
    tasks.job_id, tasks.open_dependencies, tasks.failed_dependency, tasks.open_subtasks,
    tasks.subtasks, tasks.failed_subtask, tasks.blocked_by, tasks.retries_left, tasks.rounds,
    tasks.comment, tasks.session_id, tasks.budget, tasks.spent, tasks.cancel_reason,
    tasks.created_by, tasks.created_at, tasks.depends_on, tasks.settled, tasks.blocked_detail,
    tasks.answered, tasks.options, tasks.version
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id = wanted.id OFFSET 0) AS tasks;

-- name: insert_tasks
INSERT INTO tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags
)
SELECT
    given.id, given.project, given.lifecycle, given.state, given.state_at, given.intent,
    given.source, given.priority, given.root_id, given.parent_id, given.depth, given.jobs,
    given.job_id, given.open_dependencies, given.failed_dependency, given.open_subtasks,
    given.subtasks, given.failed_subtask, given.blocked_by, given.retries_left, given.rounds,
    given.comment, given.session_id, given.budget, given.spent, given.cancel_reason,
    given.created_by, given.created_at, given.depends_on, given.settled, given.blocked_detail,
    given.answered, given.options, given.version, given.title, given.payload, given.tags
FROM json_populate_recordset(NULL::tasks, :rows) AS given;

-- name: update_tasks
MERGE INTO tasks USING json_populate_recordset(NULL::tasks, :rows) AS given
ON tasks.id = given.id
WHEN MATCHED THEN UPDATE SET
    state = given.state, state_at = given.state_at, priority = given.priority, jobs = given.jobs,
    job_id = given.job_id, open_dependencies = given.open_dependencies,
    failed_dependency = given.failed_dependency, open_subtasks = given.open_subtasks,
    subtasks = given.subtasks, failed_subtask = given.failed_subtask, blocked_by = given.blocked_by,
    retries_left = given.retries_left, rounds = given.rounds, comment = given.comment,
    session_id = given.session_id, budget = given.budget, spent = given.spent,
    cancel_reason = given.cancel_reason, settled = given.settled,
    blocked_detail = given.blocked_detail, answered = given.answered, options = given.options,
    version = given.version
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (given.id);

-- name: edit_tasks
MERGE INTO tasks USING json_populate_recordset(NULL::tasks, :rows) AS given
ON tasks.id = given.id
WHEN MATCHED THEN UPDATE SET
    title = coalesce(given.title, tasks.title), payload = coalesce(given.payload, tasks.payload),
    tags = coalesce(given.tags, tasks.tags)
WHEN NOT MATCHED AND given.id IS NULL THEN INSERT (id) VALUES (given.id);

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

-- name: delete_tasks
MERGE INTO tasks USING json_array_elements_text(:ids) AS gone (id) ON tasks.id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (id) VALUES (gone.id);

-- name: delete_dependencies
MERGE INTO dependencies USING json_array_elements_text(:ids) AS gone (id) ON dependencies.task_id = gone.id
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND gone.id IS NULL THEN INSERT (task_id) VALUES (gone.id);
