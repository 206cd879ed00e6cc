"""Older programs can use a database after a migration whose name promises it."""

import pytest

from detent.store.migration_files import Migration, migrations
from tools.migration_rules import UNMARKED, changes, flaws


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_migrations_keep_what_their_names_promise(store: str) -> None:
    assert list(flaws(migrations(f"detent.store.{store}.migrations"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "-- Notes.\nCREATE TABLE notes (name text); CREATE INDEX n ON notes (name);",
        "CREATE TABLE notes (name text); INSERT INTO notes VALUES ('a');",
        "ALTER TABLE active_jobs ADD COLUMN origin text;",
        "ALTER TABLE active_jobs ADD COLUMN origin text COLLATE \"C\" NOT NULL DEFAULT '';",
        "ALTER TABLE workers ADD COLUMN load INTEGER DEFAULT 0 NOT NULL;",
        "CREATE VIEW listed AS SELECT 1;",
        "CREATE FUNCTION one() RETURNS int LANGUAGE plpgsql AS $$ BEGIN; DROP TABLE x; END $$;",
    ],
)
def test_additions(text: str) -> None:
    assert list(changes(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE snoozes",
        "DROP INDEX tasks_by_time",
        "ALTER TABLE tasks RENAME COLUMN intent TO kind",
        "ALTER TABLE tasks DROP COLUMN intent",
        "ALTER TABLE tasks ALTER COLUMN jobs TYPE bigint",
        "ALTER TABLE tasks ADD COLUMN origin text NOT NULL",
        "ALTER TABLE tasks ADD COLUMN at bigint DEFAULT random()",
        "ALTER TABLE tasks ADD COLUMN origin text UNIQUE",
        "ALTER TABLE tasks ADD CONSTRAINT one CHECK (jobs > 0)",
        "CREATE INDEX late ON tasks (intent)",
        "CREATE OR REPLACE FUNCTION commit_json(body text) RETURNS json AS $$ $$",
        "CREATE TRIGGER follow AFTER INSERT ON tasks BEGIN SELECT 1",
        "UPDATE tasks SET jobs = 1",
        "INSERT INTO workers VALUES ('a')",
    ],
)
def test_what_is_more_than_an_addition(text: str) -> None:
    assert list(changes(text)) != []
    (flaw,) = flaws([Migration(UNMARKED + 1, "expand_late", f"{text};", "")])
    assert "_expand_late: not an addition" in flaw
    assert not list(flaws([Migration(UNMARKED + 1, "contract_late", f"{text};", "")]))


def test_a_later_migration_without_a_promise() -> None:
    (flaw,) = flaws([Migration(UNMARKED + 1, "late", "CREATE TABLE x (y text);", "")])
    assert "must begin with expand_" in flaw
