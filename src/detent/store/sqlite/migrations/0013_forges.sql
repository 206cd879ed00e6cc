-- What was received from forges: the deliveries of webhooks, and the tasks of pull requests.

CREATE TABLE forge_items (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
