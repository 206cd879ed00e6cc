-- Small tables of named JSON values. `named` stands for the table: one statement is made for each.

-- name: named_rows
SELECT name, value FROM named;

-- name: put_named
INSERT INTO named (name, value, updated_at) VALUES (:name, :value, :updated_at)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at;

-- The store's clock goes on from here, unless somebody else has written the row since it was read.
-- name: renew_clock
INSERT INTO system_state (name, value, updated_at) VALUES ('clock', :value, :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
WHERE system_state.value = :old;

-- name: remove_named
DELETE FROM named WHERE name = :name;
