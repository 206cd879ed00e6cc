-- Tasks by their tags in the order of their lists: a page costs the same however many tasks there are, and
-- however few of them have the tag. The table follows the column by itself, so that one statement writes a task.

CREATE TABLE task_tags (
    tag text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    task_id text COLLATE "C" NOT NULL
);

INSERT INTO task_tags (tag, at, task_id)
SELECT DISTINCT named.tag, tasks.created_at, tasks.id
FROM tasks, json_array_elements_text(tasks.tags::json) AS named (tag)
WHERE tasks.tags <> '[]';

CREATE UNIQUE INDEX task_tags_in_order ON task_tags (tag, at NULLS FIRST, task_id NULLS FIRST);

CREATE FUNCTION keep_task_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM task_tags
        USING json_array_elements_text(OLD.tags::json) AS named (tag)
        WHERE task_tags.tag = named.tag AND at = OLD.created_at AND task_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO task_tags (tag, at, task_id)
        SELECT DISTINCT named.tag, NEW.created_at, NEW.id
        FROM json_array_elements_text(NEW.tags::json) AS named (tag);
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER task_tags_of_a_new_task AFTER INSERT ON tasks
    FOR EACH ROW WHEN (NEW.tags <> '[]') EXECUTE FUNCTION keep_task_tags();
CREATE TRIGGER task_tags_of_an_edited_task AFTER UPDATE OF tags ON tasks
    FOR EACH ROW WHEN (OLD.tags <> NEW.tags) EXECUTE FUNCTION keep_task_tags();
CREATE TRIGGER task_tags_of_a_deleted_task AFTER DELETE ON tasks
    FOR EACH ROW WHEN (OLD.tags <> '[]') EXECUTE FUNCTION keep_task_tags();

-- Of one priority there may be half a million tasks, which are listed in the order of their ids: the index has it.
DROP INDEX tasks_by_priority;
CREATE INDEX tasks_by_priority ON tasks (priority NULLS FIRST, id NULLS FIRST);

-- Nobody has ever used it: settings are in the file, the environment and flags.
DROP TABLE settings;
