-- The log, and the rows that cache it. Columns are the fields of the entities in kernel/state.py.
-- Mappings, lists and free values are JSON text; times are microseconds since the epoch. All text is compared
-- byte by byte: ids are looked up by it, and lists come in the same order as from every other store.
-- The lists of states are those of the lifecycles; a test compares them.

CREATE TABLE schema_migrations (
    number integer PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    at bigint NOT NULL
);

-- ---- the log --------------------------------------------------------------------------------

CREATE TABLE events (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    project text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    schema integer NOT NULL,
    subject text COLLATE "C",
    at bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    digest bytea,
    CONSTRAINT events_in_stream UNIQUE (stream, version)
);

CREATE TABLE seals (
    from_position bigint NOT NULL,
    to_position bigint PRIMARY KEY,
    count integer NOT NULL,
    chain bytea NOT NULL,
    at bigint NOT NULL
);

-- ---- what people and programs look at -------------------------------------------------------

CREATE TABLE tasks (
    id text COLLATE "C" PRIMARY KEY,
    project text COLLATE "C" NOT NULL,
    lifecycle text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    state_at bigint NOT NULL,
    intent text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    priority text COLLATE "C" NOT NULL,
    root_id text COLLATE "C" NOT NULL,
    parent_id text COLLATE "C",
    depth integer NOT NULL,
    jobs integer NOT NULL,
    job_id text COLLATE "C",
    open_dependencies integer NOT NULL,
    failed_dependency text COLLATE "C",
    open_subtasks integer NOT NULL,
    subtasks integer NOT NULL,
    failed_subtask text COLLATE "C",
    blocked_by text COLLATE "C",
    retries_left integer,
    rounds integer NOT NULL,
    comment text COLLATE "C",
    session_id text COLLATE "C",
    budget bigint,
    spent bigint NOT NULL,
    cancel_reason text COLLATE "C",
    created_by text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    depends_on text COLLATE "C" NOT NULL,
    blocked_detail text COLLATE "C" NOT NULL,
    answered text COLLATE "C" NOT NULL,
    options text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    title text COLLATE "C" NOT NULL,
    payload text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    CONSTRAINT tasks_state CHECK (
        CASE lifecycle
            WHEN 'board' THEN state IN ('inbox', 'todo', 'doing', 'blocked', 'done', 'cancelled')
            WHEN 'review' THEN state IN (
                'pending', 'queued', 'running', 'ready', 'blocked', 'failed', 'timed_out',
                'completed', 'cancelled', 'budget_exceeded'
            )
        END IS TRUE
    )
) WITH (fillfactor = 70);
CREATE INDEX tasks_by_parent ON tasks (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE dependencies (
    depends_on text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (depends_on, task_id)
);
CREATE INDEX dependencies_by_task ON dependencies (task_id);

CREATE TABLE jobs (
    id text COLLATE "C" PRIMARY KEY,
    project text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    state_at bigint NOT NULL,
    intent text COLLATE "C" NOT NULL,
    priority text COLLATE "C" NOT NULL,
    rank bigint NOT NULL,
    root_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C",
    parent_job_id text COLLATE "C",
    queued_at bigint NOT NULL,
    not_before bigint NOT NULL,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    fence bigint NOT NULL,
    nonce text COLLATE "C",
    worker text COLLATE "C",
    runs integer NOT NULL,
    run_id text COLLATE "C",
    cancel_reason text COLLATE "C",
    plan_version integer NOT NULL,
    replans integer NOT NULL,
    concurrency_key text COLLATE "C",
    queue_deadline bigint,
    job_deadline bigint,
    error_class text COLLATE "C",
    error text COLLATE "C",
    created_at bigint NOT NULL,
    ended_at bigint,
    resuming boolean NOT NULL,
    failures text COLLATE "C" NOT NULL,
    plan_wanted boolean NOT NULL,
    waited boolean NOT NULL,
    result text COLLATE "C" NOT NULL,
    options text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    payload text COLLATE "C" NOT NULL,
    CONSTRAINT jobs_state CHECK (
        state IN (
            'queued', 'running', 'waiting', 'parked', 'retrying', 'completed', 'failed', 'cancelled'
        )
    )
) WITH (fillfactor = 70);
CREATE INDEX jobs_by_task ON jobs (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX jobs_by_parent ON jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;

-- ---- parts of a job -------------------------------------------------------------------------

CREATE TABLE runs (
    id text COLLATE "C" PRIMARY KEY,
    job_id text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    fence bigint NOT NULL,
    worker text COLLATE "C" NOT NULL,
    queued_at bigint NOT NULL,
    step text COLLATE "C",
    started_at bigint,
    ended_at bigint,
    outcome text COLLATE "C",
    exit_code integer,
    error_class text COLLATE "C",
    error text COLLATE "C",
    session_id text COLLATE "C",
    cost bigint NOT NULL,
    tokens_in bigint NOT NULL,
    tokens_out bigint NOT NULL,
    progress double precision,
    note text COLLATE "C",
    CONSTRAINT runs_state CHECK (
        state IN ('queued', 'running', 'succeeded', 'failed', 'timeout', 'cancelled')
    )
) WITH (fillfactor = 70);
CREATE INDEX runs_by_job ON runs (job_id);

CREATE TABLE evidence (
    run_id text COLLATE "C" NOT NULL,
    file text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    media_type text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (run_id, file)
);
CREATE INDEX evidence_by_blob ON evidence (sha256);

-- What runs write, where machines share no disk.
CREATE TABLE output (
    run_id text COLLATE "C" NOT NULL,
    at_offset bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (run_id, at_offset)
);

-- Chunks of a blob from 0 on; the first says when it was last put.
CREATE TABLE blobs (
    sha256 text COLLATE "C" NOT NULL,
    chunk integer NOT NULL,
    at bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (sha256, chunk)
);

CREATE TABLE plans (
    job_id text COLLATE "C" NOT NULL,
    plan_version integer NOT NULL,
    document text COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, plan_version)
);

CREATE TABLE steps (
    job_id text COLLATE "C" NOT NULL,
    plan_version integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    state_at bigint NOT NULL,
    retries integer NOT NULL,
    lost integer NOT NULL,
    not_before bigint NOT NULL,
    run_id text COLLATE "C",
    resource text COLLATE "C",
    last_resource text COLLATE "C",
    held_until bigint,
    wait text COLLATE "C",
    reason text COLLATE "C",
    error_class text COLLATE "C",
    error text COLLATE "C",
    avoid text COLLATE "C" NOT NULL,
    result text COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, plan_version, name),
    CONSTRAINT steps_state CHECK (
        state IN (
            'pending', 'waiting_deps', 'leased', 'running', 'succeeded', 'failed_retryable',
            'retrying', 'failed_resource', 'switching_resource', 'failed_fatal', 'failed',
            'needs_user', 'lease_timeout'
        )
    )
);
CREATE INDEX steps_by_resource ON steps (resource) WHERE resource IS NOT NULL;

CREATE TABLE waits (
    job_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    begun_at bigint NOT NULL,
    step text COLLATE "C",
    missing integer NOT NULL,
    due_at bigint,
    needs text COLLATE "C" NOT NULL,
    detail text COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, name)
);
CREATE INDEX waits_due ON waits (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE signals (
    job_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    value text COLLATE "C" NOT NULL,
    taken boolean NOT NULL,
    PRIMARY KEY (job_id, name)
);

CREATE TABLE checkpoints (
    job_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    step text COLLATE "C",
    done boolean NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, name)
);

-- ---- the queue ------------------------------------------------------------------------------

-- Only work that may be claimed, now or at a known time, or that a worker holds. `asleep`: its time had not
-- come when the row was written; the claim wakes it.
CREATE TABLE queue (
    job_id text COLLATE "C" PRIMARY KEY,
    root_id text COLLATE "C" NOT NULL,
    project text COLLATE "C" NOT NULL,
    intent text COLLATE "C" NOT NULL,
    rank bigint NOT NULL,
    due_at bigint NOT NULL,
    asleep boolean NOT NULL,
    concurrency_key text COLLATE "C",
    worker text COLLATE "C",
    fence bigint NOT NULL DEFAULT 0,
    lease_until bigint
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- A lane is an intent in a project under one concurrency key, or under none. A claimer never walks past the
-- work of lanes that are not for it.
CREATE INDEX queue_lanes ON queue (intent, project, coalesce(concurrency_key, ''), rank)
WHERE worker IS NULL AND NOT asleep;
CREATE INDEX queue_asleep ON queue (due_at) WHERE asleep;
CREATE INDEX queue_leased ON queue (lease_until) WHERE worker IS NOT NULL;
CREATE INDEX queue_leased_keys ON queue (concurrency_key)
WHERE worker IS NOT NULL AND concurrency_key IS NOT NULL;

-- Which lanes got work, and from which rank on, in the order of commits. Claimers remember where each lane
-- begins and are told here when it begins earlier: without that a claim would walk past everything that was
-- claimed while some reader keeps it from being vacuumed. An empty intent stands for work that is asleep, and
-- the rank for the time at which it is due. Rows are of use for a minute.
CREATE TABLE arrivals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    intent text COLLATE "C" NOT NULL,
    project text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    rank bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE deadlines (
    job_id text COLLATE "C" PRIMARY KEY,
    due_at bigint NOT NULL
);
CREATE INDEX deadlines_due ON deadlines (due_at);

CREATE TABLE idempotency_keys (
    project text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    answer text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (project, key)
);
CREATE INDEX idempotency_keys_expired ON idempotency_keys (expires_at);

-- ---- in and out -----------------------------------------------------------------------------

CREATE TABLE intake (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C",
    at bigint,
    error text COLLATE "C"
);

CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    body text COLLATE "C" NOT NULL,
    due_at bigint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    error text COLLATE "C"
);
CREATE INDEX outbox_due ON outbox (due_at);

-- ---- small tables of named JSON values ------------------------------------------------------

CREATE TABLE projects (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE intents (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE workers (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE schedules (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE resources (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE limits (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE tokens (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE settings (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE system_state (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE webhooks (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE notion_pages (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

-- ---- forgetting -----------------------------------------------------------------------------

-- The one way to change events: what an event of a deleted stream said is blanked, and its digest kept; a
-- tombstone stays. It runs with its owner's rights, so that the role that detent runs as needs none to update
-- the log.
CREATE FUNCTION blank_events(given json) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    MERGE INTO events USING json_to_recordset(given) AS blank (position bigint, digest text)
    ON events.position = blank.position
    WHEN MATCHED AND events.digest IS NULL
        AND events.name NOT IN ('task_deleted', 'job_deleted')
        AND NOT EXISTS (SELECT FROM tasks WHERE tasks.id = events.stream)
        AND NOT EXISTS (SELECT FROM jobs WHERE jobs.id = events.stream)
    THEN UPDATE SET data = '', digest = decode(blank.digest, 'hex')
    WHEN NOT MATCHED AND blank.position IS NULL THEN INSERT (stream) VALUES (NULL)
$$;
REVOKE ALL ON FUNCTION blank_events(json) FROM PUBLIC;

-- With its owner's rights it must find these tables and no others of the same names.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION blank_events(json) SET search_path = %I, pg_temp', current_schema());
END
$$;
