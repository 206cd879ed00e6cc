-- Due timers, oldest first, each kind from its own index. Those of leases differ.

-- name: due_waits
SELECT job_id, name
FROM waits
WHERE due_at <= :now
ORDER BY due_at
LIMIT :limit;

-- name: due_deadlines
SELECT job_id
FROM deadlines
WHERE due_at <= :now
ORDER BY due_at
LIMIT :limit;
