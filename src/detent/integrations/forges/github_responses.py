"""Responses of GitHub that are kept, to ask only whether they have changed.

GitHub does not count such a request if nothing has changed. It is asked each time: a response that
is kept is never older than the request.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from githubkit import Response

#: The responses of about 200 open pull requests.
MAX_BYTES = 16 * 1024 * 1024
UNCHANGED = 304


class KeptResponses:
    """The responses of one connection: those that were used last, up to a number of bytes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._kept: OrderedDict[Hashable, Response[Any]] = OrderedDict()
        self._bytes, self._max_bytes = 0, max_bytes

    def get(self, request: Any, *place: object, **options: object) -> Response[Any]:
        """The response to a request, which is a method of githubkit."""
        key = (request.__qualname__, place, *sorted(options.items()))
        kept = self._kept.get(key)
        headers = {} if kept is None else {"If-None-Match": kept.headers["etag"]}
        response: Response[Any] = request(*place, headers=headers, **options)
        if kept is not None and response.status_code == UNCHANGED:
            self._kept.move_to_end(key)
            return kept
        self._keep(key, response)
        return response

    def _keep(self, key: Hashable, response: Response[Any]) -> None:
        old = self._kept.pop(key, None)
        self._bytes -= 0 if old is None else len(old.content)
        if "etag" in response.headers:
            self._kept[key] = response
            self._bytes += len(response.content)
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._kept.popitem(last=False)[1].content)
