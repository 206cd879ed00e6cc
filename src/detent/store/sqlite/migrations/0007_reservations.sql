-- What a run may cost in all, out of a budget that others draw on too; and what a suspended run waits for.

ALTER TABLE runs ADD COLUMN reserved INTEGER;
ALTER TABLE runs ADD COLUMN reason TEXT;
