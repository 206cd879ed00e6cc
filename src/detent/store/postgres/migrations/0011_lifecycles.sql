-- The documents of the lifecycles that were installed, by id. They follow from the events lifecycle_installed.

CREATE TABLE lifecycles (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);
