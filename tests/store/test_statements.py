"""SQL from files: what a statement takes and gives is read off its own text."""

from importlib import resources

import pytest

from detent.store.statements import for_tables, load, parse, statement

SHARED = "detent.store.sql"
OWN = ("detent.store.sqlite.sql", "detent.store.postgres.sql")

FILE = """-- About these.

-- name: first
SELECT jobs.id, count(*) AS many, name
FROM jobs
    -- A comment may stand inside.
WHERE id = :id AND name = :name OR parent = :id;

-- Why the next one is there.
-- name: second
UPDATE t SET a = 'at  :noon''s end',
    b = :b::text;
"""


def test_a_file_is_a_list_of_named_blocks() -> None:
    first, second = parse(FILE)
    assert (first.name, second.name) == ("first", "second")
    assert first.text.startswith("SELECT jobs.id, count(*) AS many, name FROM jobs WHERE id = :id")
    assert second.text == "UPDATE t SET a = 'at  :noon''s end', b = :b::text"


def test_parameters_are_in_the_order_of_their_first_appearance() -> None:
    first, second = parse(FILE)
    assert first.parameters == ("id", "name")
    assert second.parameters == ("b",)


def test_columns_are_the_names_in_the_select_list() -> None:
    first, second = parse(FILE)
    assert first.columns == ("id", "many", "name")
    assert second.columns == ()


def test_one_statement_for_each_table() -> None:
    made = for_tables(statement("rows", "SELECT named.name FROM named"), ["tokens", "limits"])
    assert made["tokens"].text == "SELECT tokens.name FROM tokens"
    assert list(made) == ["tokens", "limits"]


@pytest.mark.parametrize("package", [SHARED, *OWN])
def test_every_file_can_be_read(package: str) -> None:
    assert load(package)


@pytest.mark.parametrize("package", OWN)
def test_a_statement_of_one_database_says_why_it_differs(package: str) -> None:
    for file in resources.files(package).iterdir():
        text = file.read_text(encoding="utf-8") if file.name.endswith(".sql") else ""
        assert not list(parse(text)) or text.startswith("-- Differs because: "), file.name


def test_what_both_databases_understand_is_written_once() -> None:
    sqlite, postgres = map(load, OWN)
    same = [name for name in sqlite if name in postgres if sqlite[name] == postgres[name]]
    assert same == []


def test_a_name_is_in_one_place() -> None:
    with pytest.raises(ValueError, match="is defined twice"):
        load("detent.store.sql", "detent.store.sql")
