-- The hash chain over the log, and statements that make the rows and the log smaller.

-- name: chain_blocks_after
SELECT from_position, to_position, count, chain, at
FROM seals
WHERE to_position > :after
ORDER BY to_position
LIMIT :limit;

-- name: last_chain_block
SELECT from_position, to_position, count, chain, at
FROM seals
ORDER BY to_position DESC
LIMIT 1;

-- name: insert_chain_block
INSERT INTO seals (from_position, to_position, count, chain, at)
VALUES (:from_position, :to_position, :count, :chain, :at);

-- `named` is replaced by each table whose rows are derived from the log.
-- name: clear_rows
DELETE FROM named;
