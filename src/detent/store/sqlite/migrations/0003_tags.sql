-- Tasks by their tags in the order of their lists: a page costs the same however many tasks there are, and
-- however few of them have the tag. The table follows the column by itself, so that one statement writes a task.

CREATE TABLE task_tags (
    tag TEXT NOT NULL,
    at INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    PRIMARY KEY (tag, at, task_id)
) STRICT, WITHOUT ROWID;

INSERT OR IGNORE INTO task_tags (tag, at, task_id)
SELECT named.value, tasks.created_at, tasks.id
FROM tasks, json_each(tasks.tags) AS named
WHERE tasks.tags <> '[]';

CREATE TRIGGER task_tags_of_a_new_task AFTER INSERT ON tasks WHEN NEW.tags <> '[]'
BEGIN
    INSERT OR IGNORE INTO task_tags (tag, at, task_id)
    SELECT value, NEW.created_at, NEW.id FROM json_each(NEW.tags);
END;

CREATE TRIGGER task_tags_of_an_edited_task AFTER UPDATE OF tags ON tasks WHEN OLD.tags <> NEW.tags
BEGIN
    DELETE FROM task_tags
    WHERE (tag, at, task_id) IN (SELECT value, OLD.created_at, OLD.id FROM json_each(OLD.tags));
    INSERT OR IGNORE INTO task_tags (tag, at, task_id)
    SELECT value, NEW.created_at, NEW.id FROM json_each(NEW.tags);
END;

CREATE TRIGGER task_tags_of_a_deleted_task AFTER DELETE ON tasks WHEN OLD.tags <> '[]'
BEGIN
    DELETE FROM task_tags
    WHERE (tag, at, task_id) IN (SELECT value, OLD.created_at, OLD.id FROM json_each(OLD.tags));
END;

-- Nobody has ever used it: settings are in the file, the environment and flags.
DROP TABLE settings;
