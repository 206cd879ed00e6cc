-- The layout on PostgreSQL. In braces is what the variants of the trial differ in.

-- One value at a time: a session that cached several would use lower ones after other sessions' higher ones.
CREATE SEQUENCE commit_ids CACHE 1;

-- One row per transaction with all its events, in order.
CREATE TABLE commits (
    id bigint PRIMARY KEY,
    at bigint NOT NULL,
    events integer NOT NULL,
    body {body} NOT NULL
);
{storage}

-- Insert-only. The first position of each commit, assigned after it was committed.
CREATE TABLE positions (
    first_position bigint PRIMARY KEY,
    events integer NOT NULL,
    commit_id bigint NOT NULL UNIQUE
);

-- Work that has not ended. `lane` is the intent, with the concurrency key if there is one, or NULL while
-- the job is delayed: then no claim walks over it. No index has a column that a claim changes.
CREATE TABLE active_jobs (
    id text COLLATE "C" PRIMARY KEY,
    project text COLLATE "C" NOT NULL,
    intent text COLLATE "C" NOT NULL,
    lane text COLLATE "C",
    rank bigint NOT NULL,
    due_at bigint,
    concurrency_key text COLLATE "C",
    worker text COLLATE "C",
    fence bigint NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0,
    version integer NOT NULL,
    queued_at bigint NOT NULL,
    started_at bigint,
    created_commit bigint NOT NULL,
    claimed_commit bigint,
    payload text COLLATE "C" NOT NULL
) WITH (
    fillfactor = {fillfactor}, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX active_jobs_by_rank ON active_jobs (lane, rank) {where};
CREATE INDEX active_jobs_due ON active_jobs (due_at) WHERE due_at IS NOT NULL;

-- One row per claimed batch, not per job: a heartbeat renews it, and the claim's commit names its jobs.
CREATE TABLE leases (
    claim bigint PRIMARY KEY,
    worker text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    open integer NOT NULL
) WITH (fillfactor = 50);

-- A row only for a lane with a limit.
CREATE TABLE lane_limits (
    lane text COLLATE "C" PRIMARY KEY,
    most integer NOT NULL,
    running integer NOT NULL
) WITH (fillfactor = 50);

-- Work that has ended, written once, with the facts of its only run.
CREATE TABLE ended_jobs (
    id text COLLATE "C" PRIMARY KEY,
    project text COLLATE "C" NOT NULL,
    intent text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    attempt integer NOT NULL,
    version integer NOT NULL,
    worker text COLLATE "C",
    queued_at bigint NOT NULL,
    started_at bigint,
    ended_at bigint NOT NULL,
    commits bigint[] NOT NULL,
    result text COLLATE "C",
    payload text COLLATE "C"
);

CREATE TABLE chain_blocks (
    to_position bigint PRIMARY KEY,
    count integer NOT NULL,
    chain bytea NOT NULL
);

-- The events for auditors, when the body has the encoding `templates`: `format` fills the templates.
CREATE VIEW events AS
SELECT
    positions.first_position - 1 + row_number() OVER (
        PARTITION BY commits.id ORDER BY part.number, job.number, event.number
    ) AS position,
    job.value ->> 0 AS stream,
    (job.value ->> 1)::integer + event.number - 1 AS version,
    job.value ->> 2 AS project,
    event.value ->> 0 AS name,
    (event.value ->> 1)::integer AS schema,
    CASE WHEN (event.value ->> 2)::boolean THEN
        format('%s-r%s', job.value ->> 0, job.value ->> 4)
    END AS subject,
    commits.at,
    part.value -> 0 ->> 0 AS actor,
    format(
        event.value ->> 3, job.value ->> 0, NULL, NULL, NULL, job.value ->> 2, job.value ->> 3, job.value ->> 4,
        job.value ->> 5
    ) AS data
FROM commits
LEFT JOIN positions ON positions.commit_id = commits.id
CROSS JOIN LATERAL json_array_elements({json}) WITH ORDINALITY AS part (value, number)
CROSS JOIN LATERAL json_array_elements(part.value -> 1) WITH ORDINALITY AS job (value, number)
CROSS JOIN LATERAL json_array_elements(part.value -> 0 -> 1) WITH ORDINALITY AS event (value, number);
