-- Small tables of named JSON values. `named` is replaced by the name of each table.

-- name: named_rows
SELECT name, value FROM named;

-- name: row_names
SELECT name FROM named;

-- name: named_rows_under
SELECT name, value FROM named WHERE name >= :first AND name < :upto;

-- name: put_named
INSERT INTO named (name, value, updated_at) VALUES (:name, :value, :updated_at)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at;

-- The store's clock continues from here, unless another process has written the row since it was read.
-- name: renew_clock
INSERT INTO system_state (name, value, updated_at) VALUES ('clock', :value, :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
WHERE system_state.value = :old;

-- name: remove_named
DELETE FROM named WHERE name = :name;
