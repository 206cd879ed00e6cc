-- Pauses and limits are events. Those that were set before are noted once, so that the log says what the rows
-- say. A writer that appends meanwhile waits: positions follow the order of commits.

SELECT pg_advisory_xact_lock(1685352052, 0);

INSERT INTO events (stream, version, project, name, schema, subject, at, actor, data)
SELECT '@system', 1, '', 'limits_noted', 1, NULL,
    greatest(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        coalesce((SELECT at FROM events ORDER BY position DESC LIMIT 1), 0)
    ),
    'detent', json_build_object('limits', (SELECT json_object_agg(name, value::json) FROM limits))::text
WHERE EXISTS (SELECT FROM limits);
