-- Subtasks that a task no longer waits for although they were not completed: their outcome was handled, or a
-- person dismissed them. A JSON list of ids.

ALTER TABLE tasks ADD COLUMN settled text COLLATE "C" NOT NULL DEFAULT '[]';
