-- Layout 2: one row of the log for each transaction, and separate tables for work that is active and work that
-- has ended. `detent db upgrade` converts the log of an earlier database between this migration and the next.

-- A body holds the events of one transaction as compressed JSON text: see store/commit_body.py. `size` is the
-- size of the text in bytes. The id is the position of the first event; the positions within a commit have no
-- gap.
CREATE TABLE commits (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    events INTEGER NOT NULL,
    size INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- The last commit stays, so that no position is ever given twice.
CREATE TRIGGER commits_keep_the_last BEFORE DELETE ON commits
WHEN old.id = (SELECT max(id) FROM commits)
BEGIN
    SELECT RAISE(ABORT, 'the last commit of the log stays');
END;

-- Rows have the ids of the first commits of their stream in the column `commits`, each followed by a comma.
-- Here are those of streams without a row, those after version 16, and those of a converted or rebuilt log.
CREATE TABLE stream_commits (
    stream TEXT NOT NULL,
    commit_id INTEGER NOT NULL,
    PRIMARY KEY (stream, commit_id)
) STRICT, WITHOUT ROWID;

-- Streams whose row was deleted: their ids are not given again while their events are in the log.
CREATE TABLE tombstones (
    stream TEXT NOT NULL PRIMARY KEY,
    last_commit INTEGER NOT NULL,
    commits TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Work that has ended and changes again passes through the table of active work.

-- ---- tasks -----------------------------------------------------------------------------------

CREATE TABLE active_tasks (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    lifecycle TEXT NOT NULL,
    state TEXT NOT NULL,
    state_at INTEGER NOT NULL,
    intent TEXT NOT NULL,
    source TEXT NOT NULL,
    priority TEXT NOT NULL,
    root_id TEXT NOT NULL,
    parent_id TEXT,
    depth INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    job_id TEXT,
    open_dependencies INTEGER NOT NULL,
    failed_dependency TEXT,
    open_subtasks INTEGER NOT NULL,
    subtasks INTEGER NOT NULL,
    failed_subtask TEXT,
    blocked_by TEXT,
    retries_left INTEGER,
    rounds INTEGER NOT NULL,
    comment TEXT,
    session_id TEXT,
    budget INTEGER,
    spent INTEGER NOT NULL,
    cancel_reason TEXT,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    depends_on TEXT NOT NULL,
    settled TEXT NOT NULL,
    blocked_detail TEXT NOT NULL,
    answered TEXT NOT NULL,
    options TEXT NOT NULL,
    version INTEGER NOT NULL,
    title TEXT NOT NULL,
    payload TEXT NOT NULL,
    tags TEXT NOT NULL,
    commits TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE ended_tasks (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    lifecycle TEXT NOT NULL,
    state TEXT NOT NULL,
    state_at INTEGER NOT NULL,
    intent TEXT NOT NULL,
    source TEXT NOT NULL,
    priority TEXT NOT NULL,
    root_id TEXT NOT NULL,
    parent_id TEXT,
    depth INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    job_id TEXT,
    open_dependencies INTEGER NOT NULL,
    failed_dependency TEXT,
    open_subtasks INTEGER NOT NULL,
    subtasks INTEGER NOT NULL,
    failed_subtask TEXT,
    blocked_by TEXT,
    retries_left INTEGER,
    rounds INTEGER NOT NULL,
    comment TEXT,
    session_id TEXT,
    budget INTEGER,
    spent INTEGER NOT NULL,
    cancel_reason TEXT,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    depends_on TEXT NOT NULL,
    settled TEXT NOT NULL,
    blocked_detail TEXT NOT NULL,
    answered TEXT NOT NULL,
    options TEXT NOT NULL,
    version INTEGER NOT NULL,
    title TEXT NOT NULL,
    payload TEXT NOT NULL,
    tags TEXT NOT NULL,
    commits TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- ---- jobs and runs ---------------------------------------------------------------------------

-- `run_*`: the run whose id is `run_id`, while the job is running and after it has ended, if it is not the run
-- of a plan step; `run_state` is null if there is none. `lane`: null if no worker can claim the job. `asleep`: its time had not come when it was queued.
CREATE TABLE active_jobs (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    state TEXT NOT NULL,
    state_at INTEGER NOT NULL,
    intent TEXT NOT NULL,
    priority TEXT NOT NULL,
    rank INTEGER NOT NULL,
    root_id TEXT NOT NULL,
    task_id TEXT,
    parent_job_id TEXT,
    queued_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    nonce TEXT,
    worker TEXT,
    runs INTEGER NOT NULL,
    run_id TEXT,
    cancel_reason TEXT,
    plan_version INTEGER NOT NULL,
    replans INTEGER NOT NULL,
    concurrency_key TEXT,
    queue_deadline INTEGER,
    job_deadline INTEGER,
    error_class TEXT,
    error TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    resuming INTEGER NOT NULL,
    failures TEXT NOT NULL,
    plan_wanted INTEGER NOT NULL,
    waited INTEGER NOT NULL,
    result TEXT NOT NULL,
    options TEXT NOT NULL,
    version INTEGER NOT NULL,
    payload TEXT NOT NULL,
    commits TEXT NOT NULL,
    run_state TEXT,
    run_attempt INTEGER,
    run_fence INTEGER,
    run_worker TEXT,
    run_queued_at INTEGER,
    run_started_at INTEGER,
    run_ended_at INTEGER,
    run_outcome TEXT,
    run_exit_code INTEGER,
    run_error_class TEXT,
    run_error TEXT,
    run_session_id TEXT,
    run_cost INTEGER,
    run_tokens_in INTEGER,
    run_tokens_out INTEGER,
    run_progress REAL,
    run_note TEXT,
    run_reserved INTEGER,
    run_reason TEXT,
    lane TEXT,
    due_at INTEGER,
    asleep INTEGER NOT NULL DEFAULT 0,
    lease_id INTEGER,
    CONSTRAINT active_jobs_state CHECK (
        state = 'queued' OR state = 'running' OR state = 'waiting' OR state = 'parked'
        OR state = 'retrying' OR state = 'completed' OR state = 'failed' OR state = 'cancelled'
    ),
    CONSTRAINT active_jobs_run_state CHECK (
        run_state IS NULL
        OR run_state = 'queued' OR run_state = 'running' OR run_state = 'succeeded' OR run_state = 'failed'
        OR run_state = 'timeout' OR run_state = 'cancelled'
    )
) STRICT, WITHOUT ROWID;

CREATE TABLE ended_jobs (
    id TEXT NOT NULL PRIMARY KEY,
    project TEXT NOT NULL,
    state TEXT NOT NULL,
    state_at INTEGER NOT NULL,
    intent TEXT NOT NULL,
    priority TEXT NOT NULL,
    rank INTEGER NOT NULL,
    root_id TEXT NOT NULL,
    task_id TEXT,
    parent_job_id TEXT,
    queued_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    nonce TEXT,
    worker TEXT,
    runs INTEGER NOT NULL,
    run_id TEXT,
    cancel_reason TEXT,
    plan_version INTEGER NOT NULL,
    replans INTEGER NOT NULL,
    concurrency_key TEXT,
    queue_deadline INTEGER,
    job_deadline INTEGER,
    error_class TEXT,
    error TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    resuming INTEGER NOT NULL,
    failures TEXT NOT NULL,
    plan_wanted INTEGER NOT NULL,
    waited INTEGER NOT NULL,
    result TEXT NOT NULL,
    options TEXT NOT NULL,
    version INTEGER NOT NULL,
    payload TEXT NOT NULL,
    commits TEXT NOT NULL,
    run_state TEXT,
    run_attempt INTEGER,
    run_fence INTEGER,
    run_worker TEXT,
    run_queued_at INTEGER,
    run_started_at INTEGER,
    run_ended_at INTEGER,
    run_outcome TEXT,
    run_exit_code INTEGER,
    run_error_class TEXT,
    run_error TEXT,
    run_session_id TEXT,
    run_cost INTEGER,
    run_tokens_in INTEGER,
    run_tokens_out INTEGER,
    run_progress REAL,
    run_note TEXT,
    run_reserved INTEGER,
    run_reason TEXT,
    CONSTRAINT ended_jobs_state CHECK (
        state = 'completed' OR state = 'failed' OR state = 'cancelled'
    ),
    CONSTRAINT ended_jobs_run_state CHECK (
        run_state IS NULL
        OR run_state = 'queued' OR run_state = 'running' OR run_state = 'succeeded' OR run_state = 'failed'
        OR run_state = 'timeout' OR run_state = 'cancelled'
    )
) STRICT, WITHOUT ROWID;

-- Runs of plan steps, earlier runs of a job, and the last run of a job that waits.
CREATE TABLE other_runs (
    id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    worker TEXT NOT NULL,
    queued_at INTEGER NOT NULL,
    step TEXT,
    started_at INTEGER,
    ended_at INTEGER,
    outcome TEXT,
    exit_code INTEGER,
    error_class TEXT,
    error TEXT,
    session_id TEXT,
    cost INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    progress REAL,
    note TEXT,
    reserved INTEGER,
    reason TEXT,
    PRIMARY KEY (job_id, id),
    CONSTRAINT other_runs_state CHECK (
        state = 'queued' OR state = 'running' OR state = 'succeeded' OR state = 'failed'
        OR state = 'timeout' OR state = 'cancelled'
    )
) STRICT, WITHOUT ROWID;

-- Jobs that a worker has claimed together. `held`: how many of them it still has.
CREATE TABLE leases (
    id INTEGER PRIMARY KEY,
    worker TEXT NOT NULL,
    until INTEGER NOT NULL,
    held INTEGER NOT NULL,
    jobs TEXT NOT NULL
) STRICT;
