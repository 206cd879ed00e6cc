-- Which workers may claim a row: the job's intent, and for a job with a plan also the intents of its next
-- steps. A claimer reads the lanes that suit it, so the index begins with the lane, and arrivals name it.

ALTER TABLE queue ADD COLUMN lane text COLLATE "C" NOT NULL DEFAULT '';
UPDATE queue SET lane = intent;
DROP INDEX queue_lanes;
CREATE INDEX queue_lanes ON queue (lane, project, coalesce(concurrency_key, ''), rank)
WHERE worker IS NULL AND NOT asleep;
ALTER TABLE arrivals RENAME COLUMN intent TO lane;
