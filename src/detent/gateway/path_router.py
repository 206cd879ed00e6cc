"""From a path to its route by a few lookups, however many routes there are.

Walking through a list of patterns cost more than the rest of the request.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

from detent.errors import DetentError, Invalid, NotFound
from detent.gateway.middleware import context_of, refuse
from detent.gateway.operation_routes import ScopedRoute, ScopedWebSocket

#: Stands for a parameter among the segments of a path.
ANY = "*"
WEBSOCKET = "WEBSOCKET"
Shape = tuple[str, ...]


class Place:
    """One path: its routes by method, and where its parameters stand.

    A path may end with a parameter like `{file:path}`, which takes everything that is left.
    """

    def __init__(self, path: str) -> None:
        self.routes: dict[str, ScopedRoute | ScopedWebSocket] = {}
        self.path, self.rest = _without_rest(path)
        self.parameters = {
            at: segment[1:-1]
            for at, segment in enumerate(self.path.split("/"))
            if segment.startswith("{")
        }


class Paths:
    """Every route by its path. A path has at most one parameter, and may have a rest."""

    def __init__(self, routes: Iterable[Any]) -> None:
        self._places: dict[Shape, Place] = {}
        self._with_rest: dict[Shape, Place] = {}
        for route in routes:
            made = Place(route.path)
            places = self._with_rest if made.rest else self._places
            place = places.setdefault(_shape(made.path), made)
            assert len(place.parameters) <= 1, "a second parameter would need more lookups"
            methods = {WEBSOCKET} if isinstance(route, ScopedWebSocket) else route.methods
            place.routes.update(dict.fromkeys(methods, route))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method", WEBSOCKET)
        place, parameters = self._find(scope["path"])
        route = None if place is None else place.routes.get(method)
        if route is None:
            await refuse(_refusal(scope["path"], method, place), scope, receive, send)
            return
        scope["path_params"] = parameters
        context_of(scope).path = route.path
        await route.app(scope, receive, send)

    def knows(self, path: str) -> bool:
        """Whether some route stands at this path."""
        return self._find(path)[0] is not None

    def _find(self, path: str) -> tuple[Place | None, Mapping[str, str]]:
        segments = path.split("/")
        for shape in _shapes(segments):
            place = self._places.get(shape)
            if place is not None:
                return place, {name: segments[at] for at, name in place.parameters.items()}
        return self._find_with_rest(segments)

    def _find_with_rest(self, segments: list[str]) -> tuple[Place | None, Mapping[str, str]]:
        for end in range(len(segments) - 1, 1, -1):
            for shape in _shapes(segments[:end]):
                place = self._with_rest.get(shape)
                if place is not None and segments[end]:
                    found = {name: segments[at] for at, name in place.parameters.items()}
                    return place, {**found, place.rest: "/".join(segments[end:])}
        return None, {}


def _without_rest(path: str) -> tuple[str, str]:
    """The path before the parameter that takes the rest, and its name; empty if there is none."""
    before, _, last = path.rpartition("/")
    if last.endswith(":path}"):
        return before, last[1 : -len(":path}")]
    return path, ""


def _shape(path: str) -> Shape:
    return tuple(ANY if segment.startswith("{") else segment for segment in path.split("/"))


def _shapes(segments: list[str]) -> Iterator[Shape]:
    """The path itself, then the path with any one segment as a parameter; never an empty one."""
    yield tuple(segments)
    for at in range(len(segments) - 1, 0, -1):
        if segments[at]:
            yield (*segments[:at], ANY, *segments[at + 1 :])


def _refusal(path: str, method: str, place: Place | None) -> DetentError:
    if place is None or method == WEBSOCKET:
        return NotFound(f"There is nothing at {path!r}.")
    allowed = tuple(sorted(place.routes.keys() - {WEBSOCKET}))
    return Invalid(
        f"{path} does not take {method}.",
        code="method_not_allowed",
        field="method",
        given=method,
        allowed=allowed,
    )
