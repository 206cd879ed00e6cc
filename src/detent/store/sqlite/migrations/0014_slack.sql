-- Messages that were sent to Slack, and interactions that were received from it.

CREATE TABLE slack (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
