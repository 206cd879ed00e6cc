"""What an app is asked to submit, and where the data of a store that it opens is kept."""

from typing import Any, NamedTuple

import platformdirs

from detent.store.open import is_postgres, sqlite_path


class Order(NamedTuple):
    """An intent with a payload as JSON, and the type of its result. None is no payload."""

    intent: str
    payload: Any
    returns: Any

    def given(self) -> dict[str, Any]:
        """The fields of a request."""
        payload = {} if self.payload is None else {"payload": self.payload}
        return {"intent": self.intent, **payload}


def beside(url: str) -> str:
    """Where run directories go: beside an SQLite file, else in the user's data directory."""
    if is_postgres(url):
        return platformdirs.user_data_dir("detent")
    return str(sqlite_path(url).parent)
