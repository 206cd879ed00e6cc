-- What was received from forges: the deliveries of webhooks, and the tasks of pull requests.

CREATE TABLE forge_items (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);
