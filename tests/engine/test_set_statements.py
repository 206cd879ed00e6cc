"""The statements that write sets on SQLite find rows by index."""

import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

from detent.store.sqlite.connection import Connection
from tests.engine.job_set_scene import ENDED, PLAIN, Claim
from tests.engine.test_job_sets import opened

STEP = ENDED._replace(kind="step")


def test_statements_of_sets_find_rows_by_index(tmp_path: Path) -> None:
    texts: dict[str, None] = {}
    execute = Connection.all

    def note(self: Connection, text: str, values: Any = ()) -> Any:
        if "active_" in text and ("given" in text or "RETURNING" in text):
            texts[text] = None
        return execute(self, text, values)

    path = tmp_path / "detent.db"
    with patch.object(Connection, "all", note), opened(path, sets=True) as person:
        for lifecycle in ("", "board"):
            person.do([PLAIN._replace(lifecycle=lifecycle)] * 6)
            person.do(Claim("w1", "n1", 6))
            person.do([STEP._replace(held=each) for each in range(6)])
            person.do([ENDED._replace(held=each) for each in range(6)])
    database = apsw.Connection(str(path))
    kinds = {re.sub(r"\W.*", "", text) for text in texts}
    assert kinds == {"INSERT", "UPDATE", "DELETE"}
    for text in texts:
        values = [None] * len(set(re.findall(r"\?\d+|:\w+", text)))
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {text}", values)]
        assert not [line for line in plan if re.match(r"SCAN (active|ended)_", line)], plan
    database.close()
