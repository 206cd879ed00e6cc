"""What an app is asked to submit, and where the data of a store that it opens is kept."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import platformdirs

from detent.store.store_url import is_postgres, sqlite_path


class Order(NamedTuple):
    """An intent with a payload as JSON, and the type of its result. None is no payload, no plan."""

    intent: str
    payload: Any
    returns: Any
    plan: Mapping[str, Any] | None = None

    def given(self) -> dict[str, Any]:
        """The fields of a request; the plan is not one of them."""
        payload = {} if self.payload is None else {"payload": self.payload}
        return {"intent": self.intent, **payload}

    def options(self) -> dict[str, Any]:
        return {} if self.plan is None else {"plan": self.plan}


def beside(url: str) -> str:
    """Where run directories go: beside an SQLite file, else in the user's data directory."""
    if is_postgres(url):
        return platformdirs.user_data_dir("detent")
    return str(sqlite_path(url).parent)
