-- What projects have used of their quotas, as counted by the engine.

CREATE TABLE project_usage (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);
