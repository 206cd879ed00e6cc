-- Messages to external targets: a small window on the log for each target.

-- name: outbox
SELECT id, target, stream, position, body, due_at, attempts, error
FROM outbox
WHERE target = :target
ORDER BY id
LIMIT :limit;

-- name: insert_outbox
INSERT INTO outbox (target, stream, position, body, due_at)
VALUES (:target, :stream, :position, :body, :due_at);

-- name: update_outbox
UPDATE outbox SET due_at = :due_at, attempts = :attempts, error = :error WHERE id = :id;

-- name: delete_outbox
DELETE FROM outbox WHERE id = :id;
