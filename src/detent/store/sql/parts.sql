-- Parts of single jobs, and who holds resources.

-- name: job_checkpoints
SELECT job_id, name, kind, step, done, value
FROM checkpoints
WHERE job_id = :job_id
ORDER BY name;

-- name: resources_in_use
SELECT steps.resource, count(*) AS in_use
FROM steps JOIN jobs ON jobs.id = steps.job_id AND jobs.plan_version = steps.plan_version
WHERE steps.resource IS NOT NULL
GROUP BY steps.resource;
