-- Differs because: on SQLite a read costs little, so that a claim reads first. Here the statements of a set are sent
-- in one round trip. What one of them finds for the next ones is a setting of the transaction: `detent.now` is its
-- time, `detent.chosen` has the ids of the claimed jobs of one set, `detent.sets` those of all sets, `detent.commit` the
-- id of the commit, `detent.released` the leases of ended jobs.

-- name: set_now
SELECT set_config('detent.now', :now, true)::bigint AS now;

-- The store's time, if it was not read before: see clock.py. `wall` is NULL, or the time of a test. `least` is what the
-- process would not go back behind, unless the clock was reset meanwhile.
-- name: find_now
SELECT set_config('detent.now', greatest(
        coalesce(:wall::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
        CASE WHEN coalesce(clock.resets, 0) = :resets::bigint THEN :least::bigint END,
        clock.at,
        CASE WHEN last.id > coalesce(clock.position, 0) THEN last.at END
    )::text, true)::bigint AS now
FROM (SELECT 1) AS one
LEFT JOIN (
    SELECT (value::json ->> 'at')::bigint AS at, (value::json ->> 'position')::bigint AS position,
        (value::json ->> 'resets')::bigint AS resets
    FROM system_state WHERE name = 'clock'
) AS clock ON true
LEFT JOIN (SELECT id, at FROM commits ORDER BY id DESC LIMIT 1) AS last ON true;

-- name: read_now
SELECT current_setting('detent.now')::bigint AS now;

-- name: plain_arrival
INSERT INTO arrivals (lane, project, key, rank)
SELECT :lane, :project, :key, current_setting('detent.now')::bigint + :offset::bigint;

-- Plain jobs after their first claim, and after up to MAX_STEPS durable steps; see job_sets.py. The other columns follow
-- from the versions: if each event after the claim has recorded a checkpoint, nothing else has happened.
-- name: plain_runs
SELECT jobs.id, jobs.project, jobs.nonce, jobs.plain, jobs.version - 4 AS steps
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT id, project, nonce, version,
        CASE
            WHEN task_id IS NULL THEN options
            ELSE (
                SELECT '["' || lifecycle || '",' || active_tasks.options || ',' || active_jobs.options || ']'
                FROM active_tasks
                WHERE active_tasks.id = active_jobs.task_id AND active_tasks.version = 3 AND parent_id IS NULL
                    AND depends_on = '[]' AND budget IS NULL AND active_tasks.job_id = active_jobs.id
                    AND NOT EXISTS (SELECT FROM dependencies WHERE dependencies.depends_on = active_tasks.id)
            )
        END AS plain
    FROM active_jobs
    WHERE active_jobs.id = wanted.id AND version BETWEEN 4 AND 14 AND state = 'running' AND fence = 1 AND runs = 1
        AND parent_job_id IS NULL AND not_before = 0 AND run_state = 'running' AND lease_id IS NOT NULL
    OFFSET 0
) AS jobs
WHERE jobs.plain IS NOT NULL
    AND (
        jobs.version = 4
        OR jobs.version = 4 + (SELECT count(*) FROM checkpoints WHERE job_id = jobs.id AND kind = 'step')
    );

-- The jobs of new checkpoints. They are locked before the next statement reads them and allocates the commit id.
-- name: lock_stepping
SELECT count(*) AS locked
FROM (
    SELECT id FROM active_jobs
    WHERE id = ANY (ARRAY(SELECT json_array_elements_text(:ids))) ORDER BY id FOR UPDATE
) AS jobs;

-- Checkpoints of plain jobs. If a job is not as it was given, the `job_id` of its checkpoint is NULL.
-- name: record_steps
WITH given AS MATERIALIZED (
    SELECT own ->> 0 AS job_id, own ->> 1 AS name, own ->> 2 AS kind, own ->> 3 AS step, (own ->> 4)::boolean AS done,
        own ->> 5 AS value, (own ->> 6)::integer AS before, own ->> 7 AS nonce
    FROM json_array_elements(:rows) AS rows (own)
),
held AS MATERIALIZED (
    SELECT jobs.id, given.name, given.kind, given.step, given.done, given.value
    FROM given
    LEFT JOIN LATERAL (
        SELECT active_jobs.id FROM active_jobs
        WHERE active_jobs.id = given.job_id AND active_jobs.version = given.before AND active_jobs.fence = 1
            AND active_jobs.nonce = given.nonce AND active_jobs.run_state = 'running'
            AND active_jobs.lease_id IS NOT NULL
        OFFSET 0
    ) AS jobs ON true
),
mark AS MATERIALIZED (
    SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('commit_ids') END AS id,
        current_setting('detent.now')::bigint AS at
),
logged AS (
    INSERT INTO commits (id, at, events, body) SELECT mark.id, mark.at, :events::integer, :body FROM mark
),
stepped AS (
    UPDATE active_jobs SET version = active_jobs.version + 1, commits = active_jobs.commits || ',' || mark.id
    FROM mark
    WHERE active_jobs.id = ANY (ARRAY(SELECT held.id FROM held))
)
INSERT INTO checkpoints (job_id, name, kind, step, done, value)
SELECT held.id, held.name, held.kind, held.step, held.done, held.value FROM held;

-- The root of a plain job that ends, if it is a task. It is locked before the next statement reads its dependents.
-- name: lock_plain_tasks
SELECT count(*) AS locked
FROM json_array_elements_text(:ids) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT active_tasks.id FROM active_tasks WHERE active_tasks.id = wanted.id FOR UPDATE
) AS tasks;

-- name: release_ended
MERGE INTO leases USING json_to_recordset(current_setting('detent.released')::json)
    AS released (lease_id bigint, jobs integer)
ON leases.id = released.lease_id
WHEN MATCHED AND leases.held > released.jobs THEN UPDATE SET held = leases.held - released.jobs
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND released.lease_id IS NULL THEN INSERT (id) VALUES (NULL);

-- ---- claims ---------------------------------------------------------------------------------

-- name: set_chosen
SELECT set_config('detent.chosen', ARRAY(SELECT json_array_elements_text(:ids))::text, true);

-- Chooses jobs of known lanes, and of lanes in which jobs have arrived, in order; see `claimable`. Nothing is chosen and
-- `refused` is true if there is a limit on claims or a pause, if a job with a concurrency key or a plan has arrived, if a delayed
-- job has arrived and is due, or if a job is in none of the given sets. A set has jobs of one project and one `plain`;
-- `sets` has both as one text. `seen` has the arrivals that were read before.
-- name: choose_plain
WITH news AS MATERIALIZED (
    SELECT lane, project, key, min(rank) AS floor
    FROM arrivals
    WHERE xid >= :after::xid8
        AND concat_ws(E'\x1f', xid::text, lane, project, key) <> ALL (ARRAY(SELECT json_array_elements_text(:seen)))
        AND (
            lane = '' OR :projects::json IS NULL
            OR project = ANY (ARRAY(SELECT json_array_elements_text(:projects)))
        )
        AND (
            lane = '' OR :intents::json IS NULL OR starts_with(lane, E'\n')
            OR lane = ANY (ARRAY(SELECT json_array_elements_text(:intents)))
        )
    GROUP BY lane, project, key
),
checked AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM limits
        WHERE name > '' AND (
            (value::json -> 'running') IS NOT NULL OR (value::json -> 'rate') IS NOT NULL
            OR (value::json -> 'paused') IS NOT NULL OR (value::json -> 'cost_per_day') IS NOT NULL
        )
    )
        OR EXISTS (
            SELECT FROM news
            WHERE key <> '' OR starts_with(lane, E'\n')
                OR lane = '' AND floor <= current_setting('detent.now')::bigint
        ) AS refused
),
wanted AS MATERIALIZED (
    SELECT either.lane, either.project, min(either.floor) AS floor,
        coalesce((:starts::json ->> either.project)::bigint, :start::bigint) AS start,
        coalesce((:costs::json ->> either.project)::bigint, :unit::bigint) AS cost
    FROM (
        SELECT lane, project, floor FROM json_to_recordset(:lanes) AS known (lane text, project text, floor bigint)
        UNION ALL
        SELECT lane, project, floor FROM news WHERE lane <> ''
    ) AS either
    WHERE NOT (SELECT refused FROM checked)
    GROUP BY either.lane, either.project
),
ready AS MATERIALIZED (
    SELECT wanted.lane, wanted.project, wanted.start, wanted.cost, first.rank
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT jobs.rank FROM active_jobs AS jobs
        WHERE jobs.lane IS NOT NULL AND NOT jobs.asleep AND jobs.lease_id IS NULL
            AND jobs.lane = wanted.lane AND jobs.project = wanted.project
            AND coalesce(jobs.concurrency_key, '') = ''
            AND jobs.rank >= wanted.floor
        ORDER BY jobs.rank
        LIMIT :limit
    ) AS first
),
seen AS MATERIALIZED (
    SELECT lane, project, rank
    FROM (
        SELECT lane, project, rank, first_value(rank) OVER own AS floor,
            start + cost * (row_number() OVER own - 1) AS at
        FROM ready
        WINDOW own AS (PARTITION BY project ORDER BY rank)
    ) AS ordered
    ORDER BY at, floor, project, rank
    LIMIT :limit
),
share AS MATERIALIZED (
    SELECT lane, project, min(rank) AS floor, count(*) AS most FROM seen GROUP BY lane, project
),
free AS MATERIALIZED (
    SELECT free.id, free.rank, CASE
        WHEN free.id ~ '[^A-Za-z0-9_.:-]' THEN 0
        ELSE coalesce(array_position(
            ARRAY(SELECT json_array_elements_text(:sets)), free.project || E'\x1f' || free.plain
        ), 0)
    END AS place
    FROM share CROSS JOIN LATERAL (
        SELECT ready.id, ready.project, ready.rank,
            CASE
                WHEN ready.version <> 1 OR ready.parent_job_id IS NOT NULL OR ready.not_before <> 0 THEN NULL
                WHEN ready.task_id IS NULL THEN ready.options
                WHEN root.job_id = ready.id THEN root.plain || ready.options || ']'
            END AS plain
        FROM (
            SELECT jobs.id, jobs.project, jobs.rank, jobs.root_id, jobs.task_id, jobs.parent_job_id,
                jobs.version, jobs.not_before, jobs.options
            FROM active_jobs AS jobs
            WHERE jobs.lane IS NOT NULL AND NOT jobs.asleep AND jobs.lease_id IS NULL
                AND jobs.lane = share.lane AND jobs.project = share.project
                AND coalesce(jobs.concurrency_key, '') = ''
                AND jobs.rank >= share.floor
            ORDER BY jobs.rank
            FOR UPDATE SKIP LOCKED
        ) AS ready
        CROSS JOIN LATERAL (
            SELECT NULL AS plain, NULL AS job_id WHERE ready.root_id = ready.id
            UNION ALL
            SELECT task.plain, task.job_id FROM (
                SELECT active_tasks.job_id, CASE
                    WHEN active_tasks.version = 2 AND active_tasks.parent_id IS NULL
                        AND active_tasks.depends_on = '[]' AND active_tasks.budget IS NULL
                    THEN '["' || active_tasks.lifecycle || '",' || active_tasks.options || ','
                END AS plain
                FROM active_tasks
                WHERE active_tasks.id = ready.root_id AND ready.root_id <> ready.id
                FOR UPDATE SKIP LOCKED
            ) AS task
            UNION ALL
            SELECT NULL, NULL
            WHERE ready.root_id <> ready.id
                AND NOT EXISTS (SELECT FROM active_tasks WHERE active_tasks.id = ready.root_id)
            LIMIT 1
        ) AS root
        LIMIT share.most
    ) AS free
)
SELECT
    set_config('detent.sets', CASE
        WHEN bool_and(place > 0) THEN json_object_agg(place, ids)::text ELSE '{}'
    END, true) AS sets,
    (SELECT refused FROM checked) OR NOT coalesce(bool_and(place > 0), true) AS refused
FROM (SELECT place, array_agg(id ORDER BY rank, id)::text AS ids FROM free GROUP BY place) AS chosen;

-- name: choose_set
SELECT set_config('detent.chosen', coalesce(current_setting('detent.sets')::json ->> :place, '{}'), true);

-- The chosen jobs are locked. Without any, no id is allocated.
-- name: allocate_chosen
SELECT set_config(
    'detent.commit',
    CASE
        WHEN current_setting('detent.chosen') <> '{}' AND pg_current_xact_id() IS NOT NULL
        THEN nextval('commit_ids')::text ELSE ''
    END,
    true
);

-- name: lease_chosen
INSERT INTO leases (id, worker, until, held, jobs)
SELECT :id::bigint, :worker, current_setting('detent.now')::bigint + :lease_us::bigint, cardinality(chosen.ids), chosen.ids
FROM (SELECT current_setting('detent.chosen')::text[] AS ids) AS chosen
WHERE cardinality(chosen.ids) > 0;

-- name: log_chosen
INSERT INTO commits (id, at, events, body)
SELECT current_setting('detent.commit')::bigint, current_setting('detent.now')::bigint,
    :events::integer * count(*), '[[' || :template || ',[' || string_agg(
        '["' || left(chosen.id, length(chosen.id) - length(:suffix)) || '"]', ',' ORDER BY chosen.place
    ) || ']]]'
FROM unnest(current_setting('detent.chosen')::text[]) WITH ORDINALITY AS chosen (id, place)
HAVING count(*) > 0;
