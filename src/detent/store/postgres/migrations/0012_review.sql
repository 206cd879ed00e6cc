-- What people keep beside the log while they review: drafts of comments, files that they have seen, and tasks that
-- they do not want to see before a time.

CREATE TABLE review_drafts (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE viewed_files (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE snoozes (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
);
