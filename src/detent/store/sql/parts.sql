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
