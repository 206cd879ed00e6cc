-- Due timers, oldest first, each kind from its own index.

-- name: due_leases
SELECT job_id, fence
FROM queue
WHERE worker IS NOT NULL AND lease_until <= :now
ORDER BY lease_until
LIMIT :limit;

-- name: shift_leases
UPDATE queue SET lease_until = lease_until - :ahead WHERE worker IS NOT NULL;

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
