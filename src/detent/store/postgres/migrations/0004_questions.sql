-- What jobs alone ask of people, oldest first. It costs as much as there are open questions, however many jobs
-- there are, and however many of them wait for something else.

CREATE INDEX waits_asking ON waits (begun_at NULLS FIRST, job_id NULLS FIRST)
WHERE kind IN ('question', 'confirmation', 'budget');

CREATE VIEW questions AS
SELECT waits.job_id, waits.name, waits.kind, waits.begun_at, waits.step, waits.due_at, waits.detail,
    jobs.project, jobs.intent, jobs.priority, jobs.state
FROM waits JOIN jobs ON jobs.id = waits.job_id
WHERE waits.kind IN ('question', 'confirmation', 'budget') AND jobs.task_id IS NULL;
