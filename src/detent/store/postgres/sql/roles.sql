-- The rights of the role that detent runs as. The owner of the tables grants them once, after the first start or an
-- upgrade of the schema:
--
--     detent db sql --role detent | psql postgresql://owner@host/database
--
-- That role reads and writes rows and appends to the log. It can neither change nor remove commits, their positions
-- and chain blocks: the function blank_events replaces the data of deleted tasks and jobs by digests, and the function
-- sequence_commits assigns positions; they do nothing else. To upgrade the schema, to rebuild rows or to trim the log,
-- detent is run as the owner.

GRANT SELECT, INSERT, UPDATE, DELETE ON
    active_tasks, ended_tasks, task_tags, dependencies, active_jobs, ended_jobs, other_runs, leases,
    evidence, output, blobs, plans, steps, waits, signals, checkpoints, arrivals, deadlines,
    idempotency_keys, intake, outbox, projects, intents, workers, schedules, resources, limits,
    lifecycles, tokens, system_state, webhooks, notion_pages, review_drafts, viewed_files, snoozes,
    forge_items, slack, graph_checkpoints, project_usage
TO :"role";

GRANT SELECT, INSERT ON commits, stream_commits, tombstones, seals TO :"role";
GRANT USAGE ON SEQUENCE commit_ids TO :"role";
GRANT SELECT ON
    commit_positions, sequencer_turns, tasks, jobs, job_runs, listed_runs, runs, queue, questions, events, schema_migrations
TO :"role";
GRANT EXECUTE ON FUNCTION blank_events(json), sequence_commits() TO :"role";
