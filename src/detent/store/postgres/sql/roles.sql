-- The rights of the role that detent runs as. The owner of the tables grants them once, after the first start or an
-- upgrade of the schema:
--
--     psql --set=role=detent --file=roles.sql postgresql://owner@host/database
--
-- That role reads and writes rows and appends to the log. It can neither change nor remove what the log and its
-- chain blocks cover: the data of deleted work's events is blanked by the function blank_events, which does nothing else. To
-- upgrade the schema, to rebuild rows or to trim the log, detent is run as the owner.

GRANT SELECT, INSERT, UPDATE, DELETE ON
    tasks, task_tags, dependencies, jobs, runs, evidence, output, blobs, plans, steps, waits, signals,
    checkpoints, queue, arrivals, deadlines, idempotency_keys, intake, outbox, projects, intents,
    workers, schedules, resources, limits, tokens, system_state, webhooks, notion_pages
TO :"role";

GRANT SELECT, INSERT ON events, seals TO :"role";
GRANT SELECT ON schema_migrations, questions TO :"role";
GRANT EXECUTE ON FUNCTION blank_events(json) TO :"role";
