-- The documents of the lifecycles that were installed, by id. They follow from the events lifecycle_installed.

CREATE TABLE lifecycles (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
