-- Differs because: SQLite keeps blobs and output in files beside the database; other machines reach only rows.
-- A blob is removed only if it was not stored again recently; its first chunk has the time.

-- name: blob_size
SELECT coalesce(sum(octet_length(data)), 0) AS size, count(*) AS chunks
FROM blobs
WHERE sha256 = :sha256;

-- name: blob_chunk
SELECT data FROM blobs WHERE sha256 = :sha256 AND chunk = :chunk;

-- name: touch_blob
UPDATE blobs SET at = greatest(at, :at) WHERE sha256 = :sha256 AND chunk = 0 RETURNING sha256;

-- A transaction that stores the same blob at the same time waits here and then has nothing to do.
-- name: insert_chunk
INSERT INTO blobs (sha256, chunk, at, data) VALUES (:sha256, :chunk, :at, :data)
ON CONFLICT (sha256, chunk) DO NOTHING;

-- name: old_blobs
SELECT sha256 FROM blobs
WHERE chunk = 0 AND at < :before AND sha256 > :after
ORDER BY sha256
LIMIT :limit;

-- name: lock_old_blobs
SELECT blobs.sha256
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT sha256 FROM blobs
    WHERE blobs.sha256 = wanted.id AND chunk = 0 AND at < :before
    FOR UPDATE
) AS blobs;

-- name: delete_blobs
DELETE FROM blobs WHERE sha256 = ANY (ARRAY(SELECT json_array_elements_text(:ids)))
RETURNING sha256, octet_length(data) AS size;

-- Output may be lost in a crash of the server, so that no writer waits for its disk.
-- name: output_may_be_lost
SELECT set_config('synchronous_commit', 'off', true);

-- A part that was committed and not confirmed is sent again, with what was written since.
-- name: insert_output
INSERT INTO output (run_id, at_offset, data) VALUES (:run_id, :at_offset, :data)
ON CONFLICT (run_id, at_offset) DO UPDATE SET data = excluded.data
WHERE length(excluded.data) > length(output.data);

-- The part that contains the offset, and those that begin before the end.
-- name: output_from
SELECT at_offset, data FROM output
WHERE run_id = :run_id AND at_offset < :upto AND at_offset >= coalesce((
    SELECT at_offset FROM output
    WHERE run_id = :run_id AND at_offset <= :offset
    ORDER BY at_offset DESC
    LIMIT 1
), 0)
ORDER BY at_offset;

-- One step in the index for each run, independent of the number of its parts.
-- name: output_runs
WITH RECURSIVE found (run_id, number) AS (
    (SELECT run_id, 1 FROM output WHERE run_id > :after ORDER BY run_id LIMIT 1)
    UNION ALL
    SELECT next.run_id, found.number + 1
    FROM found CROSS JOIN LATERAL (
        SELECT run_id FROM output WHERE output.run_id > found.run_id ORDER BY run_id LIMIT 1
    ) AS next
    WHERE found.number < :limit
)
SELECT run_id FROM found;

-- The length of a part is known without reading the part.
-- name: output_sizes
SELECT run_id, CAST(sum(octet_length(data)) AS bigint) AS size FROM output
WHERE run_id > :after
GROUP BY run_id
ORDER BY run_id
LIMIT :limit;

-- name: delete_output_of
DELETE FROM output WHERE run_id = ANY (ARRAY(SELECT json_array_elements_text(:ids)));
