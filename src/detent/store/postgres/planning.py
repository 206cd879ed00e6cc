"""How statements that change rows are planned: by key, whatever the server thinks of the tables' sizes. Sends nothing.

A plan is kept for as long as its connection lives. One that was made while a table was small reads all of it,
and goes on so when the table has grown.
"""

from detent.store.postgres.connection import Query, name_of
from detent.store.postgres.reading import READY, SQL

#: Statements that look up the rows that they change.
_CHANGING = frozenset(
    name_of(each) for each in SQL.values() if each.text.startswith(("UPDATE", "DELETE"))
)
_BY_KEY, _IN_ORDER = READY["plan_by_key"](), READY["plan_in_order"]()


def by_key(*queries: Query) -> list[Query]:
    """The same statements, and around them what makes the server plan them by key."""
    if any(query.name in _CHANGING for query in queries):
        return [_BY_KEY, *queries, _IN_ORDER]
    return list(queries)
