-- One commit, one log record. The tables of this layout are created beside the earlier ones; the next migration
-- replaces those, after their rows were copied.

-- ---- the log --------------------------------------------------------------------------------

-- The id of a transaction's first commit; a transaction has up to 1,024 of them. A session must not cache values:
-- ids are in the order in which they were allocated.
CREATE SEQUENCE commit_ids INCREMENT BY 1024 START WITH 1024 CACHE 1;

-- The events of one transaction in their order, as JSON; a long transaction has several rows.
CREATE TABLE commits (
    id bigint PRIMARY KEY,
    at bigint NOT NULL,
    events integer NOT NULL,
    body text COLLATE "C" NOT NULL
);

-- The position of the first event of each commit. The sequencer assigns positions after the commit, in the order
-- of ids, so that writers do not wait for each other. Rows are never changed.
CREATE TABLE commit_positions (
    first_position bigint PRIMARY KEY,
    commit_id bigint NOT NULL UNIQUE
);

-- One row for each turn of the sequencer: the highest id and the last position so far, and the ids below it that
-- were not visible, each with the transaction id of the turn that missed it first. Such a commit appears later, or
-- never, if no transaction with a lower transaction id is running any more.
CREATE TABLE sequencer_turns (
    turn bigint PRIMARY KEY,
    high bigint NOT NULL,
    position bigint NOT NULL,
    missing bigint[] NOT NULL,
    missing_since bigint[] NOT NULL
);

-- The commits of streams without a row, and those that do not fit into the row of a task or job.
CREATE TABLE stream_commits (
    stream text COLLATE "C" NOT NULL,
    commit_id bigint NOT NULL,
    PRIMARY KEY (stream, commit_id)
);

-- The commits of tasks and jobs whose row was deleted. Their ids are not used again.
CREATE TABLE tombstones (
    stream text COLLATE "C" PRIMARY KEY,
    commits text COLLATE "C" NOT NULL
);


-- ---- tasks ----------------------------------------------------------------------------------

-- Tasks that have not ended. `commits` has the ids of the commits with the first 16 events of the task.
CREATE TABLE active_tasks (
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
    settled text COLLATE "C" NOT NULL,
    blocked_detail text COLLATE "C" NOT NULL,
    answered text COLLATE "C" NOT NULL,
    options text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    title text COLLATE "C" NOT NULL,
    payload text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    commits text COLLATE "C" NOT NULL
) WITH (fillfactor = 70);

-- Tasks that have ended.
CREATE TABLE ended_tasks (
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
    settled text COLLATE "C" NOT NULL,
    blocked_detail text COLLATE "C" NOT NULL,
    answered text COLLATE "C" NOT NULL,
    options text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    title text COLLATE "C" NOT NULL,
    payload text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    commits text COLLATE "C" NOT NULL
);

-- ---- jobs -----------------------------------------------------------------------------------

-- Jobs that have not ended, with the facts of the run of a running job (`run_...`) and their place in the queue. `lane`:
-- which workers can claim the job, NULL if none can; `asleep`: it was not due when the row was written; `lease_id`: the
-- lease of the worker that holds it. A claim changes no column of an index, and the new row is half as long again: with
-- this fillfactor it is a HOT update.
-- Columns that a claim leaves as they are come first, so that its record in the write-ahead log is short.
CREATE TABLE active_jobs (
    rank bigint NOT NULL,
    created_at bigint NOT NULL,
    queued_at bigint NOT NULL,
    not_before bigint NOT NULL,
    queue_deadline bigint,
    job_deadline bigint,
    due_at bigint,
    id text COLLATE "C" PRIMARY KEY,
    project text COLLATE "C" NOT NULL,
    intent text COLLATE "C" NOT NULL,
    priority text COLLATE "C" NOT NULL,
    root_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C",
    parent_job_id text COLLATE "C",
    concurrency_key text COLLATE "C",
    options text COLLATE "C" NOT NULL,
    payload text COLLATE "C" NOT NULL,
    lane text COLLATE "C",
    state_at bigint NOT NULL,
    fence bigint NOT NULL,
    ended_at bigint,
    run_fence bigint,
    run_queued_at bigint,
    run_started_at bigint,
    run_ended_at bigint,
    run_cost bigint,
    run_tokens_in bigint,
    run_tokens_out bigint,
    run_progress double precision,
    run_reserved bigint,
    lease_id bigint,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    runs integer NOT NULL,
    plan_version integer NOT NULL,
    replans integer NOT NULL,
    version integer NOT NULL,
    run_attempt integer,
    run_exit_code integer,
    resuming boolean NOT NULL,
    plan_wanted boolean NOT NULL,
    waited boolean NOT NULL,
    asleep boolean NOT NULL DEFAULT false,
    state text COLLATE "C" NOT NULL,
    nonce text COLLATE "C",
    worker text COLLATE "C",
    run_id text COLLATE "C",
    cancel_reason text COLLATE "C",
    error_class text COLLATE "C",
    error text COLLATE "C",
    failures text COLLATE "C" NOT NULL,
    result text COLLATE "C" NOT NULL,
    commits text COLLATE "C" NOT NULL,
    run_state text COLLATE "C",
    run_worker text COLLATE "C",
    run_outcome text COLLATE "C",
    run_error_class text COLLATE "C",
    run_error text COLLATE "C",
    run_session_id text COLLATE "C",
    run_note text COLLATE "C",
    run_reason text COLLATE "C",
    CONSTRAINT active_jobs_state CHECK (
        state IN ('queued', 'running', 'waiting', 'parked', 'retrying')
    ),
    CONSTRAINT active_jobs_run_state CHECK (
        run_state IN ('queued', 'running', 'succeeded', 'failed', 'timeout', 'cancelled')
    )
) WITH (
    fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX active_jobs_lanes ON active_jobs (lane, project, coalesce(concurrency_key, ''), rank)
WHERE lane IS NOT NULL AND NOT asleep;
CREATE INDEX active_jobs_asleep ON active_jobs (due_at) WHERE asleep;
CREATE INDEX active_jobs_by_time ON active_jobs (created_at NULLS FIRST);
CREATE INDEX active_jobs_by_task ON active_jobs (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX active_jobs_by_parent ON active_jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;


-- Jobs that have ended, with the facts of their last run. A row is written once, except when a late event arrives.
CREATE TABLE ended_jobs (
    rank bigint NOT NULL,
    created_at bigint NOT NULL,
    queued_at bigint NOT NULL,
    not_before bigint NOT NULL,
    queue_deadline bigint,
    job_deadline bigint,
    id text COLLATE "C" PRIMARY KEY,
    project text COLLATE "C" NOT NULL,
    intent text COLLATE "C" NOT NULL,
    priority text COLLATE "C" NOT NULL,
    root_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C",
    parent_job_id text COLLATE "C",
    concurrency_key text COLLATE "C",
    options text COLLATE "C" NOT NULL,
    payload text COLLATE "C" NOT NULL,
    state_at bigint NOT NULL,
    fence bigint NOT NULL,
    ended_at bigint,
    run_fence bigint,
    run_queued_at bigint,
    run_started_at bigint,
    run_ended_at bigint,
    run_cost bigint,
    run_tokens_in bigint,
    run_tokens_out bigint,
    run_progress double precision,
    run_reserved bigint,
    attempt integer NOT NULL,
    lost integer NOT NULL,
    runs integer NOT NULL,
    plan_version integer NOT NULL,
    replans integer NOT NULL,
    version integer NOT NULL,
    run_attempt integer,
    run_exit_code integer,
    resuming boolean NOT NULL,
    plan_wanted boolean NOT NULL,
    waited boolean NOT NULL,
    state text COLLATE "C" NOT NULL,
    nonce text COLLATE "C",
    worker text COLLATE "C",
    run_id text COLLATE "C",
    cancel_reason text COLLATE "C",
    error_class text COLLATE "C",
    error text COLLATE "C",
    failures text COLLATE "C" NOT NULL,
    result text COLLATE "C" NOT NULL,
    commits text COLLATE "C" NOT NULL,
    run_state text COLLATE "C",
    run_worker text COLLATE "C",
    run_outcome text COLLATE "C",
    run_error_class text COLLATE "C",
    run_error text COLLATE "C",
    run_session_id text COLLATE "C",
    run_note text COLLATE "C",
    run_reason text COLLATE "C",
    CONSTRAINT ended_jobs_state CHECK (state IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT ended_jobs_run_state CHECK (
        run_state IN ('queued', 'running', 'succeeded', 'failed', 'timeout', 'cancelled')
    )
);

-- Ids of jobs may be chosen by their submitters, so that the order of creation needs an index.
CREATE INDEX ended_jobs_by_time ON ended_jobs (created_at NULLS FIRST);
CREATE INDEX ended_jobs_by_task ON ended_jobs (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX ended_jobs_by_parent ON ended_jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;
CREATE INDEX ended_jobs_by_state ON ended_jobs (state, created_at NULLS FIRST) WHERE state <> 'completed';
CREATE INDEX ended_jobs_ended ON ended_jobs (ended_at NULLS FIRST) WHERE task_id IS NULL;
CREATE INDEX ended_jobs_run_time ON ended_jobs (run_queued_at NULLS FIRST);
CREATE INDEX ended_jobs_run_state ON ended_jobs (run_state, run_queued_at NULLS FIRST)
WHERE run_state NOT IN ('queued', 'running', 'succeeded');
CREATE INDEX ended_jobs_run_ended ON ended_jobs (run_ended_at NULLS FIRST);


-- Runs that are not in the row of their job: those of steps, all but the last one of a job, and those of jobs that are
-- neither running nor ended.
CREATE TABLE other_runs (
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
    reserved bigint,
    reason text COLLATE "C",
    CONSTRAINT other_runs_state CHECK (
        state IN ('queued', 'running', 'succeeded', 'failed', 'timeout', 'cancelled')
    )
);

CREATE INDEX other_runs_by_job ON other_runs (job_id);
CREATE INDEX other_runs_by_time ON other_runs (queued_at NULLS FIRST);
CREATE INDEX other_runs_by_state ON other_runs (state, queued_at NULLS FIRST)
WHERE state NOT IN ('queued', 'running', 'succeeded');
CREATE INDEX other_runs_ended ON other_runs (ended_at NULLS FIRST);

CREATE INDEX active_tasks_by_parent ON active_tasks (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX active_tasks_by_time ON active_tasks (created_at NULLS FIRST);
CREATE INDEX active_tasks_by_state ON active_tasks (state, created_at NULLS FIRST);
CREATE INDEX active_tasks_by_state_time ON active_tasks (state, state_at NULLS FIRST);
CREATE INDEX active_tasks_by_project ON active_tasks (project, created_at NULLS FIRST);
CREATE INDEX active_tasks_by_intent ON active_tasks (intent, created_at NULLS FIRST);
CREATE INDEX active_tasks_by_priority ON active_tasks (priority NULLS FIRST, id NULLS FIRST);

CREATE INDEX ended_tasks_by_parent ON ended_tasks (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX ended_tasks_by_time ON ended_tasks (created_at NULLS FIRST);
CREATE INDEX ended_tasks_by_state ON ended_tasks (state, created_at NULLS FIRST);
CREATE INDEX ended_tasks_by_state_time ON ended_tasks (state, state_at NULLS FIRST);
CREATE INDEX ended_tasks_by_project ON ended_tasks (project, created_at NULLS FIRST);
CREATE INDEX ended_tasks_by_intent ON ended_tasks (intent, created_at NULLS FIRST);
CREATE INDEX ended_tasks_by_priority ON ended_tasks (priority NULLS FIRST, id NULLS FIRST);

-- One row for the jobs that a worker claimed together. `held` is the number of jobs that still have this lease.
CREATE TABLE leases (
    id bigint PRIMARY KEY,
    worker text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    held integer NOT NULL,
    jobs text[] COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX leases_until ON leases (until);


-- ---- the parameters of statements ----------------------------------------------------------

-- Rows as a save sends them: `before` is the version that the row must have, `part` the number of the
-- body with its events, `place` the change of its place in the queue.
CREATE TYPE task_change AS (
    id text COLLATE "C",
    project text COLLATE "C",
    lifecycle text COLLATE "C",
    state text COLLATE "C",
    state_at bigint,
    intent text COLLATE "C",
    source text COLLATE "C",
    priority text COLLATE "C",
    root_id text COLLATE "C",
    parent_id text COLLATE "C",
    depth integer,
    jobs integer,
    job_id text COLLATE "C",
    open_dependencies integer,
    failed_dependency text COLLATE "C",
    open_subtasks integer,
    subtasks integer,
    failed_subtask text COLLATE "C",
    blocked_by text COLLATE "C",
    retries_left integer,
    rounds integer,
    comment text COLLATE "C",
    session_id text COLLATE "C",
    budget bigint,
    spent bigint,
    cancel_reason text COLLATE "C",
    created_by text COLLATE "C",
    created_at bigint,
    depends_on text COLLATE "C",
    settled text COLLATE "C",
    blocked_detail text COLLATE "C",
    answered text COLLATE "C",
    options text COLLATE "C",
    version integer,
    title text COLLATE "C",
    payload text COLLATE "C",
    tags text COLLATE "C",
    before integer,
    part integer
);

CREATE TYPE job_change AS (
    id text COLLATE "C",
    project text COLLATE "C",
    state text COLLATE "C",
    state_at bigint,
    intent text COLLATE "C",
    priority text COLLATE "C",
    rank bigint,
    root_id text COLLATE "C",
    task_id text COLLATE "C",
    parent_job_id text COLLATE "C",
    queued_at bigint,
    not_before bigint,
    attempt integer,
    lost integer,
    fence bigint,
    nonce text COLLATE "C",
    worker text COLLATE "C",
    runs integer,
    run_id text COLLATE "C",
    cancel_reason text COLLATE "C",
    plan_version integer,
    replans integer,
    concurrency_key text COLLATE "C",
    queue_deadline bigint,
    job_deadline bigint,
    error_class text COLLATE "C",
    error text COLLATE "C",
    created_at bigint,
    ended_at bigint,
    resuming boolean,
    failures text COLLATE "C",
    plan_wanted boolean,
    waited boolean,
    result text COLLATE "C",
    options text COLLATE "C",
    version integer,
    payload text COLLATE "C",
    run_state text COLLATE "C",
    run_attempt integer,
    run_fence bigint,
    run_worker text COLLATE "C",
    run_queued_at bigint,
    run_started_at bigint,
    run_ended_at bigint,
    run_outcome text COLLATE "C",
    run_exit_code integer,
    run_error_class text COLLATE "C",
    run_error text COLLATE "C",
    run_session_id text COLLATE "C",
    run_cost bigint,
    run_tokens_in bigint,
    run_tokens_out bigint,
    run_progress double precision,
    run_note text COLLATE "C",
    run_reserved bigint,
    run_reason text COLLATE "C",
    lane text COLLATE "C",
    due_at bigint,
    asleep boolean,
    lease_id bigint,
    before integer,
    part integer,
    place text COLLATE "C",
    run boolean
);
