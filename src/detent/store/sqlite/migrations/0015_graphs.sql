-- The checkpoints of LangGraph threads, which a checkpointer keeps beside the log.

CREATE TABLE graph_checkpoints (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
