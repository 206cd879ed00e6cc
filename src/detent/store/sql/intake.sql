-- Submissions that other programs insert in their own transactions.

-- name: intake
SELECT id, operation, body, idempotency_key
FROM intake
WHERE error IS NULL
ORDER BY id
LIMIT :limit;

-- name: refused_intake
SELECT id, operation, body, idempotency_key, at, error
FROM intake
WHERE error IS NOT NULL
ORDER BY id
LIMIT :limit;

-- name: put_intake
INSERT INTO intake (operation, body, idempotency_key) VALUES (:operation, :body, :idempotency_key);

-- name: delete_intake
DELETE FROM intake WHERE id = :id;

-- name: refuse_intake
UPDATE intake SET error = :error, at = :at WHERE id = :id;
