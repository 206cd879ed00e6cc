-- Indexes for lists that people look at, and for passes that ask what is old.
-- A page costs the same with a thousand rows and with a million.

CREATE INDEX tasks_by_time ON tasks (created_at, id);
CREATE INDEX tasks_by_state ON tasks (state, created_at, id);
CREATE INDEX tasks_by_state_time ON tasks (state, state_at, id);
CREATE INDEX tasks_by_project ON tasks (project, created_at, id);
CREATE INDEX tasks_by_intent ON tasks (intent, created_at, id);
CREATE INDEX tasks_by_priority ON tasks (priority, id);

-- Most jobs and runs end well, and nobody asks for all of those: the rest has an index by state.
CREATE INDEX jobs_by_time ON jobs (created_at, id);
CREATE INDEX jobs_by_state ON jobs (state, created_at, id) WHERE state <> 'completed';
CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL AND task_id IS NULL;
CREATE INDEX runs_by_time ON runs (queued_at, id);
CREATE INDEX runs_by_state ON runs (state, queued_at, id)
    WHERE state NOT IN ('queued', 'running', 'succeeded');
CREATE INDEX runs_ended ON runs (ended_at, id);

CREATE INDEX steps_held ON steps (held_until) WHERE held_until IS NOT NULL;

CREATE INDEX intake_waiting ON intake (id) WHERE error IS NULL;

-- What is to be sent to one receiver, in order.
DROP INDEX outbox_due;
CREATE INDEX outbox_by_target ON outbox (target, id);
