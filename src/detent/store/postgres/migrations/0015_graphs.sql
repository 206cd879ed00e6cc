-- The checkpoints of LangGraph threads, which a checkpointer keeps beside the log.

CREATE TABLE graph_checkpoints (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);
