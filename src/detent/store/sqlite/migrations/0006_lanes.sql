-- Which workers may claim a row: the job's intent, and for a job with a plan also the intents of its next
-- steps. A claimer reads the lanes that suit it, so the indexes begin with the lane.

ALTER TABLE queue ADD COLUMN lane TEXT NOT NULL DEFAULT '';
UPDATE queue SET lane = intent;
DROP INDEX queue_lanes;
DROP INDEX queue_keys;
CREATE INDEX queue_lanes ON queue (lane, project, concurrency_key IS NOT NULL, rank)
WHERE worker IS NULL AND asleep = 0;
CREATE INDEX queue_keys ON queue (lane, project, concurrency_key, rank)
WHERE worker IS NULL AND asleep = 0 AND concurrency_key IS NOT NULL;
