-- Parts of single jobs, and the steps that hold resources.

-- name: job_checkpoints
SELECT job_id, name, kind, step, done, value
FROM checkpoints
WHERE job_id = :job_id
ORDER BY name;

-- name: resources_in_use
SELECT steps.resource, count(*) AS in_use
FROM steps
WHERE steps.resource IS NOT NULL
    AND steps.plan_version = (SELECT jobs.plan_version FROM jobs WHERE jobs.id = steps.job_id)
GROUP BY steps.resource;

-- The bytes of a project's payloads and evidence.
-- name: stored_bytes
SELECT CAST(coalesce(sum(part.size), 0) AS bigint) AS size
FROM (
    SELECT octet_length(payload) AS size FROM tasks WHERE project = :project
    UNION ALL
    SELECT octet_length(payload) FROM jobs WHERE project = :project AND task_id IS NULL
    UNION ALL
    SELECT evidence.size
    FROM evidence JOIN runs ON runs.id = evidence.run_id JOIN jobs ON jobs.id = runs.job_id
    WHERE jobs.project = :project
) AS part;
