-- Indexes for lists that people look at, and for passes that ask what is old.
-- A page costs the same with a thousand rows and with a million.
-- Differs because: a list begins with missing values, which PostgreSQL otherwise puts last; and an
-- index that ends with the id might be walked, while tables are small, to find a row by its id.

CREATE INDEX tasks_by_time ON tasks (created_at NULLS FIRST);
CREATE INDEX tasks_by_state ON tasks (state, created_at NULLS FIRST);
CREATE INDEX tasks_by_state_time ON tasks (state, state_at NULLS FIRST);
CREATE INDEX tasks_by_project ON tasks (project, created_at NULLS FIRST);
CREATE INDEX tasks_by_intent ON tasks (intent, created_at NULLS FIRST);
CREATE INDEX tasks_by_priority ON tasks (priority NULLS FIRST, created_at);

-- Most jobs and runs end well, and nobody asks for all of those: the rest has an index by state.
CREATE INDEX jobs_by_time ON jobs (created_at NULLS FIRST);
CREATE INDEX jobs_by_state ON jobs (state, created_at NULLS FIRST) WHERE state <> 'completed';
CREATE INDEX jobs_ended ON jobs (ended_at NULLS FIRST)
    WHERE ended_at IS NOT NULL AND task_id IS NULL;
CREATE INDEX runs_by_time ON runs (queued_at NULLS FIRST);
CREATE INDEX runs_by_state ON runs (state, queued_at NULLS FIRST)
    WHERE state NOT IN ('queued', 'running', 'succeeded');
CREATE INDEX runs_ended ON runs (ended_at NULLS FIRST);

CREATE INDEX steps_held ON steps (held_until) WHERE held_until IS NOT NULL;

CREATE INDEX intake_waiting ON intake (id) WHERE error IS NULL;

-- What is to be sent to one receiver, in order.
DROP INDEX outbox_due;
CREATE INDEX outbox_by_target ON outbox (target, id);
