-- What projects have used of their quotas, as counted by the engine.

CREATE TABLE project_usage (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
