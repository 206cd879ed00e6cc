-- Differs because: SQLite takes a list as an array in memory (carray), and writes fastest with one short
-- statement for each row; with a database server every statement costs a round trip.

-- name: used_blobs
SELECT wanted.value FROM carray(:digests) AS wanted
WHERE EXISTS (SELECT 1 FROM evidence WHERE sha256 = wanted.value);

-- name: insert_evidence
INSERT INTO evidence (run_id, file, kind, sha256, size, media_type, at)
VALUES (:run_id, :file, :kind, :sha256, :size, :media_type, :at)
ON CONFLICT (run_id, file) DO UPDATE SET
    kind = excluded.kind, sha256 = excluded.sha256, size = excluded.size,
    media_type = excluded.media_type, at = excluded.at;

-- name: upsert_steps
INSERT INTO steps (
    job_id, plan_version, name, state, state_at, retries, lost, not_before, run_id, resource,
    last_resource, held_until, wait, reason, error_class, error, avoid, result
) VALUES (
    :job_id, :plan_version, :name, :state, :state_at, :retries, :lost, :not_before, :run_id,
    :resource, :last_resource, :held_until, :wait, :reason, :error_class, :error, :avoid, :result
)
ON CONFLICT (job_id, plan_version, name) DO UPDATE SET
    state = excluded.state, state_at = excluded.state_at, retries = excluded.retries,
    lost = excluded.lost, not_before = excluded.not_before, run_id = excluded.run_id,
    resource = excluded.resource, last_resource = excluded.last_resource,
    held_until = excluded.held_until, wait = excluded.wait, reason = excluded.reason,
    error_class = excluded.error_class, error = excluded.error, avoid = excluded.avoid,
    result = excluded.result;

-- name: insert_plans
INSERT INTO plans (job_id, plan_version, document) VALUES (:job_id, :plan_version, :document);

-- name: waits
SELECT job_id, name, kind, begun_at, step, missing, due_at, needs, detail
FROM carray(:ids) AS wanted CROSS JOIN waits ON job_id = wanted.value;

-- name: upsert_waits
INSERT INTO waits (job_id, name, kind, begun_at, step, missing, due_at, needs, detail)
VALUES (:job_id, :name, :kind, :begun_at, :step, :missing, :due_at, :needs, :detail)
ON CONFLICT (job_id, name) DO UPDATE SET
    kind = excluded.kind, begun_at = excluded.begun_at, step = excluded.step,
    missing = excluded.missing, due_at = excluded.due_at, needs = excluded.needs,
    detail = excluded.detail;

-- name: end_waits
DELETE FROM waits WHERE job_id = :job_id AND name = :name;

-- name: signals
SELECT job_id, name, at, signals.value, taken
FROM carray(:ids) AS wanted CROSS JOIN signals ON job_id = wanted.value;

-- name: upsert_signals
INSERT INTO signals (job_id, name, at, value, taken) VALUES (:job_id, :name, :at, :value, :taken)
ON CONFLICT (job_id, name) DO UPDATE SET
    at = excluded.at, value = excluded.value, taken = excluded.taken;

-- name: checkpoints
SELECT job_id, name, kind, step, done, value
FROM checkpoints
WHERE job_id = :job_id AND name = :name;

-- name: upsert_checkpoints
INSERT INTO checkpoints (job_id, name, kind, step, done, value)
VALUES (:job_id, :name, :kind, :step, :done, :value)
ON CONFLICT (job_id, name) DO UPDATE SET
    kind = excluded.kind, step = excluded.step, done = excluded.done, value = excluded.value;

-- name: steps
SELECT steps.job_id, steps.plan_version, steps.name, steps.state, steps.state_at, steps.retries,
    steps.lost, steps.not_before, steps.run_id, steps.resource, steps.last_resource,
    steps.held_until, steps.wait, steps.reason, steps.error_class, steps.error, steps.avoid,
    steps.result
FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON active_jobs.id = wanted.value
    CROSS JOIN steps ON steps.job_id = active_jobs.id AND steps.plan_version = active_jobs.plan_version
UNION ALL
SELECT steps.job_id, steps.plan_version, steps.name, steps.state, steps.state_at, steps.retries,
    steps.lost, steps.not_before, steps.run_id, steps.resource, steps.last_resource,
    steps.held_until, steps.wait, steps.reason, steps.error_class, steps.error, steps.avoid,
    steps.result
FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON ended_jobs.id = wanted.value
    CROSS JOIN steps ON steps.job_id = ended_jobs.id AND steps.plan_version = ended_jobs.plan_version;

-- name: plans
SELECT plans.job_id, plans.document
FROM carray(:ids) AS wanted CROSS JOIN active_jobs ON active_jobs.id = wanted.value
    CROSS JOIN plans ON plans.job_id = active_jobs.id AND plans.plan_version = active_jobs.plan_version
UNION ALL
SELECT plans.job_id, plans.document
FROM carray(:ids) AS wanted CROSS JOIN ended_jobs ON ended_jobs.id = wanted.value
    CROSS JOIN plans ON plans.job_id = ended_jobs.id AND plans.plan_version = ended_jobs.plan_version;
