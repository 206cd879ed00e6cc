-- Pauses and limits are events. Those that were set before are noted once, so that the log says what the rows
-- say.

INSERT INTO events (stream, version, project, name, schema, subject, at, actor, data)
SELECT '@system', 1, '', 'limits_noted', 1, NULL,
    max(
        CAST(unixepoch('subsec') * 1000000 AS INTEGER),
        coalesce((SELECT at FROM events ORDER BY position DESC LIMIT 1), 0)
    ),
    'detent', json_object('limits', json((SELECT json_group_object(name, json(value)) FROM limits)))
WHERE EXISTS (SELECT 1 FROM limits);
