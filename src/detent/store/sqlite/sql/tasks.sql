-- Differs because: SQLite takes a list as an array in memory (carray), and writes fastest with one short
-- statement for each row; with a database server every statement costs a round trip.

-- name: tasks
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version
FROM carray(:ids) AS wanted CROSS JOIN active_tasks ON active_tasks.id = wanted.value;

-- name: ended_tasks
SELECT
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version
FROM carray(:ids) AS wanted CROSS JOIN ended_tasks ON ended_tasks.id = wanted.value;

-- name: insert_tasks
INSERT INTO active_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
) VALUES (
    :id, :project, :lifecycle, :state, :state_at, :intent, :source, :priority, :root_id, :parent_id,
    :depth, :jobs, :job_id, :open_dependencies, :failed_dependency, :open_subtasks, :subtasks,
    :failed_subtask, :blocked_by, :retries_left, :rounds, :comment, :session_id, :budget, :spent,
    :cancel_reason, :created_by, :created_at, :depends_on, :settled, :blocked_detail, :answered,
    :options, :version, :title, :payload, :tags, :commits
);

-- name: insert_ended_tasks
INSERT INTO ended_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
) VALUES (
    :id, :project, :lifecycle, :state, :state_at, :intent, :source, :priority, :root_id, :parent_id,
    :depth, :jobs, :job_id, :open_dependencies, :failed_dependency, :open_subtasks, :subtasks,
    :failed_subtask, :blocked_by, :retries_left, :rounds, :comment, :session_id, :budget, :spent,
    :cancel_reason, :created_by, :created_at, :depends_on, :settled, :blocked_detail, :answered,
    :options, :version, :title, :payload, :tags, :commits
);

-- name: update_tasks
UPDATE active_tasks SET
    lifecycle = :lifecycle, state = :state, state_at = :state_at, priority = :priority, jobs = :jobs, job_id = :job_id,
    open_dependencies = :open_dependencies, failed_dependency = :failed_dependency, open_subtasks =
    :open_subtasks, subtasks = :subtasks, failed_subtask = :failed_subtask, blocked_by =
    :blocked_by, retries_left = :retries_left, rounds = :rounds, comment = :comment, session_id =
    :session_id, budget = :budget, spent = :spent, cancel_reason = :cancel_reason, settled =
    :settled, blocked_detail = :blocked_detail, answered = :answered, options = :options, version =
    :version, commits = commits || :commits
WHERE id = :id AND version = coalesce(:before, version);

-- name: end_tasks
INSERT INTO ended_tasks (
    id, project, lifecycle, state, state_at, intent, source, priority, root_id, parent_id, depth,
    jobs, job_id, open_dependencies, failed_dependency, open_subtasks, subtasks, failed_subtask,
    blocked_by, retries_left, rounds, comment, session_id, budget, spent, cancel_reason, created_by,
    created_at, depends_on, settled, blocked_detail, answered, options, version, title, payload,
    tags, commits
)
SELECT
    id, project, :lifecycle, :state, :state_at, intent, source, :priority, root_id, parent_id, depth,
    :jobs, :job_id, :open_dependencies, :failed_dependency, :open_subtasks, :subtasks,
    :failed_subtask, :blocked_by, :retries_left, :rounds, :comment, :session_id, :budget, :spent,
    :cancel_reason, created_by, created_at, depends_on, :settled, :blocked_detail, :answered,
    :options, :version, title, payload, tags, commits || :commits
FROM active_tasks
WHERE id = :id AND version = coalesce(:before, version);

-- name: reopen_tasks
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
    tags, commits
FROM ended_tasks
WHERE id IN (SELECT value FROM carray(:ids));

-- name: edit_tasks
UPDATE active_tasks SET
    title = coalesce(:title, title), payload = coalesce(:payload, payload),
    tags = coalesce(:tags, tags)
WHERE id = :id;

-- name: edit_ended_tasks
UPDATE ended_tasks SET
    title = coalesce(:title, title), payload = coalesce(:payload, payload),
    tags = coalesce(:tags, tags)
WHERE id = :id;

-- name: insert_dependencies
INSERT INTO dependencies (task_id, depends_on) VALUES (:task_id, :depends_on);

-- name: dependents
SELECT depends_on, task_id
FROM carray(:ids) AS wanted CROSS JOIN dependencies ON depends_on = wanted.value;

-- name: children
WITH RECURSIVE below (parent, child) AS (
    SELECT parent_id, id FROM carray(:ids) AS wanted CROSS JOIN active_tasks ON parent_id = wanted.value
    UNION
    SELECT parent_id, id FROM carray(:ids) AS wanted CROSS JOIN ended_tasks ON parent_id = wanted.value
    UNION
    SELECT active_tasks.parent_id, active_tasks.id FROM below JOIN active_tasks ON active_tasks.parent_id = below.child
    UNION
    SELECT ended_tasks.parent_id, ended_tasks.id FROM below JOIN ended_tasks ON ended_tasks.parent_id = below.child
)
SELECT parent, child FROM below;

-- name: jobs_of_task
SELECT id FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON task_id = wanted.value
UNION ALL
SELECT id FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON task_id = wanted.value;

-- name: delete_tasks
DELETE FROM active_tasks WHERE id IN (SELECT value FROM carray(:ids));

-- name: delete_ended_tasks
DELETE FROM ended_tasks WHERE id IN (SELECT value FROM carray(:ids));

-- name: delete_dependencies
DELETE FROM dependencies WHERE task_id IN (SELECT value FROM carray(:ids));
