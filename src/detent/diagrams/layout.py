"""Places boxes and labelled edges of a directed graph in layers, so that no two overlap.

An edge's label is a vertex of its own between the layers; a long edge gets a bend in every layer
that it passes. Inside, `along` runs from layer to layer and `across` within one; only `place` knows
which of them is x. Pure and deterministic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

NEIGHBOUR_GAP = 12.0  # between neighbours in one layer
PORT_GAP = 14.0  # between the ends of edges on one side of a box
LAYER_GAP = (18.0, 70.0)  # between layers: minimum and maximum; steep edges get more
ORDER_SWEEPS = 24  # passes of ordering
SETTLE_SWEEPS = 80  # passes of settling: long edges straighten slowly

Point = tuple[float, float]
Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Edge:
    """From one box to another, by name, with the size of its label."""

    source: str
    target: str
    label: Size


@dataclass(frozen=True, slots=True)
class Route:
    """A curve from point 0 to 1, from 2 to 3, …, straight lines between; the label's centre."""

    points: tuple[Point, ...]
    label: Point


@dataclass(frozen=True, slots=True)
class Placement:
    """Centre and size of each box, a route for each edge in order, and the size of the whole."""

    downward: bool
    boxes: Mapping[str, tuple[Point, Size]]
    routes: tuple[Route, ...]
    size: Size


@dataclass(eq=False, slots=True)
class _Vertex:
    """A box, or a label or bend of an edge, while it is being placed."""

    layer: int
    depth: float
    breadth: float
    is_box: bool
    along: float = 0.0
    across: float = 0.0
    before: list["_Vertex"] = field(default_factory=list)
    after: list["_Vertex"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Chain:
    """An edge as vertices from its lower layer to its higher one; `turned` if it runs back."""

    vertices: tuple[_Vertex, ...]
    label: _Vertex
    turned: bool


_Layers = list[list[_Vertex]]


def place(boxes: Mapping[str, Size], edges: Sequence[Edge], *, downward: bool) -> Placement:
    """Lay out the graph, layers downward or from left to right. No edge leads to its own box."""

    def turn(pair: Point) -> Point:
        return (pair[1], pair[0]) if downward else pair

    layer_of = _layer_of(boxes, edges)
    vertices = {name: _Vertex(layer_of[name], *turn(boxes[name]), True) for name in boxes}
    chains = _chains(vertices, [(edge, turn(edge.label)) for edge in edges])
    layers = _ordered([*vertices.values(), *(v for c in chains for v in c.vertices[1:-1])])
    _make_room_for_ports(layers)
    _settle(layers)
    size = _stack(layers)
    return Placement(
        downward,
        {n: (turn((v.along, v.across)), turn((v.depth, v.breadth))) for n, v in vertices.items()},
        tuple(
            Route(
                tuple(turn(point) for point in _points(chain)),
                turn((chain.label.along, chain.label.across)),
            )
            for chain in chains
        ),
        turn(size),
    )


def _layer_of(boxes: Mapping[str, Size], edges: Sequence[Edge]) -> dict[str, int]:
    """Even layers for boxes, by the longest way to each; the odd ones are for labels."""
    order: list[str] = []
    back: set[Edge] = set()
    visiting: set[str] = set()

    def visit(name: str) -> None:
        visiting.add(name)
        for edge in edges:
            if edge.source == name and edge.target in visiting:
                back.add(edge)
            elif edge.source == name and edge.target not in order:
                visit(edge.target)
        visiting.remove(name)
        order.append(name)

    for name in boxes:
        if name not in order:
            visit(name)
    layer = dict.fromkeys(boxes, 0)
    for name in reversed(order):
        for edge in edges:
            if edge.source == name and edge not in back:
                layer[edge.target] = max(layer[edge.target], layer[name] + 2)
    return layer


def _chains(vertices: Mapping[str, _Vertex], edges: Sequence[tuple[Edge, Size]]) -> list[_Chain]:
    """Each edge with its label, in the emptiest layer on its way, and bends in the others."""
    labels: dict[int, int] = {}
    chains = []
    for edge, label_size in edges:
        source, target = vertices[edge.source], vertices[edge.target]
        turned = target.layer < source.layer
        low, high = (target, source) if turned else (source, target)
        between = range(low.layer + 1, high.layer)
        nearest = reversed(between[::2]) if turned else between[::2]
        at = min(nearest, key=lambda layer: labels.get(layer, 0))
        labels[at] = labels.get(at, 0) + 1
        label = _Vertex(at, *label_size, False)
        inner = [label if n == at else _Vertex(n, 0.0, 0.0, False) for n in between]
        chain = _Chain((low, *inner, high), label, turned)
        for one, other in pairwise(chain.vertices):
            one.after.append(other)
            other.before.append(one)
        chains.append(chain)
    return chains


def _ordered(vertices: Sequence[_Vertex]) -> _Layers:
    """The vertices by layer, in the order with the fewest crossings that the sweeps found."""
    layers: _Layers = [[] for _ in range(max(v.layer for v in vertices) + 1)]
    for vertex in vertices:
        layers[vertex.layer].append(vertex)
    best = [list(layer) for layer in layers]
    for sweep in range(ORDER_SWEEPS):
        _sweep(layers, forward=sweep % 2 == 0)
        _swap_neighbours(layers)
        if _crossings(layers) < _crossings(best):
            best = [list(layer) for layer in layers]
    place_of = {vertex: index for layer in best for index, vertex in enumerate(layer)}
    for vertex in vertices:
        vertex.before.sort(key=place_of.__getitem__)
        vertex.after.sort(key=place_of.__getitem__)
    return best


def _sweep(layers: _Layers, *, forward: bool) -> None:
    """Order each layer by the mean place of its neighbours in the layer ordered before it."""
    for layer in layers if forward else reversed(layers):
        place_of = {v: float(i) for each in layers for i, v in enumerate(each)}
        means = dict(place_of)
        for vertex in layer:
            neighbours = vertex.before if forward else vertex.after
            if neighbours:
                means[vertex] = sum(place_of[n] for n in neighbours) / len(neighbours)
        layer.sort(key=means.__getitem__)


def _swap_neighbours(layers: _Layers) -> None:
    """Swap two neighbours wherever that alone takes a crossing away."""
    for number, layer in enumerate(layers):
        near = layers[max(0, number - 1) : number + 2]
        fewest = _crossings(near)
        for index in range(len(layer) - 1):
            layer[index], layer[index + 1] = layer[index + 1], layer[index]
            if (now := _crossings(near)) < fewest:
                fewest = now
            else:
                layer[index], layer[index + 1] = layer[index + 1], layer[index]


def _crossings(layers: _Layers) -> int:
    total = 0
    for here, there in pairwise(layers):
        place_of = {vertex: index for index, vertex in enumerate(there)}
        ends = [sorted(place_of[n] for n in vertex.after) for vertex in here]
        seen: list[int] = []
        for group in ends:
            total += sum(1 for end in group for other in seen if other > end)
            seen += group
    return total


def _make_room_for_ports(layers: _Layers) -> None:
    for layer in layers:
        for vertex in layer:
            if vertex.is_box:
                ports = max(len(vertex.before), len(vertex.after))
                vertex.breadth = max(vertex.breadth, PORT_GAP * (ports + 0.5))


def _port(neighbours: Sequence[_Vertex], neighbour: _Vertex) -> float:
    """How far from the middle of its side an edge leaves a vertex."""
    return (neighbours.index(neighbour) - (len(neighbours) - 1) / 2) * PORT_GAP


def _settle(layers: _Layers) -> None:
    """Move vertices to where their edges run straight, keeping order and distance."""
    for layer in layers:
        for one, other in pairwise(layer):
            other.across = one.across + _distance(one, other)
    for sweep in range(SETTLE_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wishes = [_wish(vertex) for vertex in layer]
            gaps = [_distance(one, other) for one, other in pairwise(layer)]
            for vertex, across in zip(layer, _spread(wishes, gaps), strict=True):
                vertex.across = across


def _distance(one: _Vertex, other: _Vertex) -> float:
    return (one.breadth + other.breadth) / 2 + NEIGHBOUR_GAP


def _wish(vertex: _Vertex) -> tuple[float, float]:
    """Where a vertex wants to be, and how much: the mean of where each edge would be straight."""
    pull = weight = 0.0
    for mine, theirs in ((vertex.before, "after"), (vertex.after, "before")):
        for neighbour in mine:
            strength = 1.0 if vertex.is_box or neighbour.is_box else 8.0
            straight = neighbour.across + _port(getattr(neighbour, theirs), vertex)
            pull += strength * (straight - _port(mine, neighbour))
            weight += strength
    return (pull / weight, weight) if weight else (vertex.across, 1.0)


def _spread(wishes: Sequence[tuple[float, float]], gaps: Sequence[float]) -> Iterator[float]:
    """The places nearest to the wishes that keep the gaps: isotonic regression by pooling."""
    offsets = [0.0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, members
    for (wish, weight), offset in zip(wishes, offsets, strict=True):
        mean, members = wish - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, other_weight, count = blocks.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, members = weight + other_weight, members + count
        blocks.append((mean, weight, members))
    means = (mean for mean, _, members in blocks for _ in range(members))
    return (mean + offset for mean, offset in zip(means, offsets, strict=True))


def _stack(layers: _Layers) -> Size:
    """Give each layer its place along the flow, begin at 0, and say how large the whole is."""
    top = min(v.across - v.breadth / 2 for layer in layers for v in layer)
    bottom = max(v.across + v.breadth / 2 for layer in layers for v in layer)
    along = 0.0
    for layer in layers:
        depth = max(vertex.depth for vertex in layer)
        along += _room_before(layer)
        for vertex in layer:
            vertex.along = along + depth / 2
            if not vertex.is_box:
                vertex.depth = depth  # run straight through the layer, past its wider labels
        along += depth
    for vertex in (v for layer in layers for v in layer):
        vertex.across -= top
    return along, bottom - top


def _room_before(layer: Sequence[_Vertex]) -> float:
    """Return the gap before a layer: the farther its curves move across, the larger."""
    moves = [abs(one.across - other.across) for one in layer for other in one.before]
    least, most = LAYER_GAP
    return min(most, max(least, max(moves) / 4)) if moves else 0.0


def _points(chain: _Chain) -> list[Point]:
    """The points of a route, in the direction in which the edge runs."""
    points = []
    for one, other in pairwise(chain.vertices):
        leaves = one.across + _port(one.after, other)
        arrives = other.across + _port(other.before, one)
        points.append((one.along + one.depth / 2, leaves))
        points.append((other.along - other.depth / 2, arrives))
    return points[::-1] if chain.turned else points
