-- Messages that were sent to Slack, and interactions that were received from it.

CREATE TABLE slack (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);
