-- The statements of the trial on PostgreSQL. The order of the parts matters: nextval comes after all row locks.

-- name: begin
SELECT
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),
    set_config('enable_memoize', 'off', true), set_config('jit', 'off', true),
    set_config('enable_bitmapscan', :bitmap_scans, true),
    set_config('plan_cache_mode', :plans, true),
    set_config('idle_in_transaction_session_timeout', '30000', true),
    set_config('transaction_timeout', '60000', true);

-- The transaction id comes before the commit id: the sequencer's low mark passes a missing commit id when all
-- transactions that had an id have ended.
-- name: submit
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        :ids::text[], :intents::text[], :lanes::text[], :ranks::bigint[], :dues::bigint[], :keys::text[],
        :payloads::text[]
    ) AS given (id, intent, lane, rank, due_at, key, payload)
),
mark AS MATERIALIZED (
    SELECT nextval('commit_ids') AS commit_id,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at
    WHERE pg_current_xact_id() IS NOT NULL
),
logged AS (
    INSERT INTO commits (id, at, events, body)
    SELECT commit_id, at, :events::integer, BODY(:body::text) FROM mark
)
INSERT INTO active_jobs (
    id, project, intent, lane, rank, due_at, concurrency_key, version, queued_at, created_commit, payload
)
SELECT id, 'bench', intent, lane, rank, due_at, key, 1, at, commit_id, payload FROM given, mark;

-- Completes a batch and claims the next one. The body is built from the deleted rows, so a completion that the
-- fence refused is not in it.
-- name: work
WITH done AS MATERIALIZED (
    SELECT * FROM unnest(:ids::text[], :fences::bigint[], :results::text[]) AS done (id, fence, result)
),
held AS MATERIALIZED (
    SELECT found.id, done.result
    FROM done CROSS JOIN LATERAL (
        SELECT id, fence, worker FROM active_jobs WHERE active_jobs.id = done.id FOR UPDATE
    ) AS found
    WHERE found.fence = done.fence AND found.worker = :worker
),
ended AS (
    DELETE FROM active_jobs USING held WHERE active_jobs.id = held.id
    RETURNING active_jobs.*, held.result
),
limited AS MATERIALIZED (
    SELECT lane, most, running FROM lane_limits WHERE lane = ANY (:lanes::text[])
    ORDER BY lane
    FOR UPDATE
),
room AS MATERIALIZED (
    SELECT lane, most,
        most - running + (SELECT count(*) FROM ended WHERE ended.lane = limited.lane) AS free
    FROM limited
),
seen AS MATERIALIZED (
    SELECT asked.lane, ready.rank
    FROM unnest(:lanes::text[], :lows::bigint[]) AS asked (lane, low)
    LEFT JOIN room ON room.lane = asked.lane
    CROSS JOIN LATERAL (
        SELECT rank FROM active_jobs
        WHERE active_jobs.lane = asked.lane AND rank >= asked.low AND worker IS NULL
        ORDER BY rank
        LIMIT least(:size::integer, coalesce(room.free, :size::integer))
    ) AS ready
    ORDER BY ready.rank
    LIMIT :size::integer
),
share AS MATERIALIZED (SELECT lane, min(rank) AS low, count(*) AS most FROM seen GROUP BY lane),
free AS MATERIALIZED (
    SELECT found.id
    FROM share CROSS JOIN LATERAL (
        SELECT id FROM active_jobs
        WHERE active_jobs.lane = share.lane AND rank >= share.low AND worker IS NULL
        ORDER BY rank
        LIMIT share.most
        FOR UPDATE SKIP LOCKED
    ) AS found
),
mark AS MATERIALIZED (
    SELECT nextval('commit_ids') AS commit_id, ends.jobs AS ends, claims.jobs AS claims,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at
    FROM (SELECT count(*) AS jobs FROM ended) AS ends, (SELECT count(*) AS jobs FROM free) AS claims
    WHERE ends.jobs + claims.jobs > 0 AND pg_current_xact_id() IS NOT NULL
),
kept AS (
    INSERT INTO ended_jobs (
        id, project, intent, state, fence, attempt, version, worker, queued_at, started_at, ended_at, commits,
        result, payload
    )
    SELECT id, project, intent, 'completed', fence, attempt, version + 2, worker, queued_at, started_at, at,
        ARRAY[created_commit, claimed_commit, commit_id], result,
        CASE WHEN :keep_payload::boolean THEN payload END
    FROM ended, mark
),
taken AS (
    UPDATE active_jobs SET
        worker = :worker, fence = fence + 1, attempt = attempt + 1, version = version + 3, started_at = at,
        claimed_commit = commit_id
    FROM free, mark
    WHERE active_jobs.id = free.id
    RETURNING active_jobs.*
),
counted AS (
    UPDATE lane_limits SET
        running = room.most - room.free + (SELECT count(*) FROM taken WHERE taken.lane = room.lane)
    FROM room
    WHERE lane_limits.lane = room.lane
),
released AS MATERIALIZED (
    SELECT claimed_commit AS claim, count(*) AS jobs FROM ended GROUP BY claimed_commit
),
removed AS (
    DELETE FROM leases USING released WHERE leases.claim = released.claim AND open = released.jobs
),
reduced AS (
    UPDATE leases SET open = open - released.jobs
    FROM released
    WHERE leases.claim = released.claim AND open > released.jobs
),
leased AS (
    INSERT INTO leases (claim, worker, until, open)
    SELECT commit_id, :worker, at + 30000000, claims FROM mark WHERE claims > 0
),
logged AS (
    INSERT INTO commits (id, at, events, body)
    SELECT commit_id, at, ends * 2 + claims * 3, BODY('[' || concat_ws(
        ',',
        (
            SELECT :end_before || string_agg(
                format(:end_row, id, version + 1, version + 2, NULL, project, fence, attempt, result), ','
            ) || :end_after
            FROM ended
        ),
        (
            SELECT :claim_before || string_agg(
                format(:claim_row, id, version - 2, version - 1, version, project, fence, attempt, 'null'), ','
            ) || :claim_after
            FROM taken
        )
    ) || ']')
    FROM mark
)
SELECT accepted.jobs, taken.id, taken.fence, taken.lane, taken.rank, taken.payload
FROM (SELECT count(*) AS jobs FROM ended) AS accepted LEFT JOIN taken ON true;

-- Delayed jobs that are due become claimable. It runs after the claim and finds nothing in an empty index.
-- name: wake
UPDATE active_jobs SET lane = concat_ws('/', intent, concurrency_key), due_at = NULL
FROM (
    SELECT id FROM active_jobs
    WHERE due_at <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    ORDER BY due_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
) AS due
WHERE active_jobs.id = due.id;

-- One turn of the sequencer, one autocommit statement. A turn whose snapshot is older than another turn's commit
-- violates the primary key and is repeated. `mine` is false if another process has the turn: then no commit was
-- read, and a commit that was missing before may be there.
-- name: sequence
WITH turn AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(7110) AS mine),
last AS MATERIALIZED (
    SELECT coalesce(
        (SELECT first_position + events FROM positions ORDER BY first_position DESC LIMIT 1), 1
    ) AS next
),
new AS MATERIALIZED (
    SELECT commits.id, commits.events
    FROM turn CROSS JOIN commits
    WHERE turn.mine AND commits.id > :low
        AND NOT EXISTS (SELECT FROM positions WHERE positions.commit_id = commits.id)
    ORDER BY commits.id
    LIMIT :most::integer
),
added AS (
    INSERT INTO positions (first_position, events, commit_id)
    SELECT last.next + sum(new.events) OVER (ORDER BY new.id) - new.events, new.events, new.id
    FROM new, last
    RETURNING commit_id
)
SELECT turn.mine, added.commit_id FROM turn LEFT JOIN added ON true;

-- name: transactions
SELECT
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next;

-- name: feed
SELECT positions.first_position, positions.events, commits.at, commits.body
FROM positions JOIN commits ON commits.id = positions.commit_id
WHERE positions.first_position > :after
ORDER BY positions.first_position
LIMIT :size::integer;

-- name: history
SELECT commits.id, commits.at, commits.body
FROM ended_jobs CROSS JOIN LATERAL unnest(ended_jobs.commits) AS own (id)
JOIN commits ON commits.id = own.id
WHERE ended_jobs.id = :id
ORDER BY commits.id;

-- name: seal
INSERT INTO chain_blocks (to_position, count, chain) VALUES (:to_position, :count, decode(:chain, 'hex'));
