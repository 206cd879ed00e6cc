"""The drawings hold every row, can be parsed, and nothing in the picture lies on something else."""

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from detent.diagrams.drawing import Format, diagram
from detent.diagrams.layout import Edge, Placement, Point, Size, place
from detent.kernel.lifecycle import Lifecycle
from detent.task_lifecycles import all_lifecycles

LIFECYCLES = all_lifecycles()

SVG = "{http://www.w3.org/2000/svg}"
EACH = pytest.mark.parametrize("each", LIFECYCLES.values(), ids=lambda each: str(each.name))


def cells(each: Lifecycle) -> set[tuple[str, str, str, bool]]:
    """The rows without their words."""
    return {(row.source or "", row.event, row.target, row.extension) for row in each.rows}


@EACH
def test_mermaid_holds_every_row(each: Lifecycle) -> None:
    first, *lines = diagram(each, Format.MERMAID).splitlines()
    assert first == "stateDiagram-v2"
    found, ends = set(), set()
    for line in lines:
        if (end := re.fullmatch(r"    (\w+) --> \[\*\]", line)) is not None:
            ends.add(end[1])
            continue
        arrow = re.fullmatch(r"    (\w+|\[\*\]) --> (\w+) : ([\w /]+?)( \(ext\))?", line)
        assert arrow is not None
        source, target, events, mark = arrow.groups()
        for event in events.split(" / "):
            found.add((source.replace("[*]", ""), event, target, mark is not None))
    assert found == cells(each)
    assert ends == set(each.terminal)


@EACH
def test_dot_holds_every_row_and_state(each: Lifecycle) -> None:
    text = diagram(each, Format.DOT)
    found = {
        (source, event, target, bool(dashed))
        for source, target, events, dashed in re.findall(
            r'"(\w*)" -> "(\w+)" \[label="([^"]+)"(, style=dashed)?\];', text
        )
        for event in events.split(r"\n")
    }
    assert found == cells(each)
    doubled = re.findall(r'"(\w+)" \[label="[^"]+", peripheries=2', text)
    assert doubled == [name for name in each.state_names if name in each.terminal]


@EACH
def test_svg_is_well_formed_and_shows_every_state_and_event(each: Lifecycle) -> None:
    picture = ElementTree.fromstring(diagram(each, Format.SVG))
    texts = [text.text or "" for text in picture.iter(f"{SVG}text")]
    for state in each.states:
        assert any(text.endswith(f" {state.name}") for text in texts)
    shown = [text.removeprefix("↻ ") for text in texts]
    for event in each.events:
        assert event in shown


@EACH
def test_svg_dashes_the_extensions_and_only_them(each: Lifecycle) -> None:
    picture = ElementTree.fromstring(diagram(each, Format.SVG))
    classes = [path.get("class") for path in picture.iter(f"{SVG}path")]
    arrows = {(row.source, row.target, row.extension) for row in each.rows}
    dashed = [arrow for arrow in arrows if arrow[2]]
    assert classes.count("line extension") == len(dashed)
    loops = [arrow for arrow in arrows if arrow[0] == arrow[1]]
    assert classes.count("line") == len(arrows) - len(dashed) - len(loops)


@EACH
def test_a_drawing_is_the_same_every_time(each: Lifecycle) -> None:
    for kind in Format:
        assert diagram(each, kind) == diagram(each, kind)


def graph(each: Lifecycle) -> tuple[dict[str, Size], list[Edge]]:
    """A lifecycle as boxes and edges of plain sizes."""
    boxes = dict.fromkeys(("", *each.state_names), (120.0, 30.0))
    ends = dict.fromkeys((row.source or "", row.target) for row in each.rows)
    edges = [Edge(*pair, label=(90.0, 16.0)) for pair in ends if pair[0] != pair[1]]
    return boxes, edges


def overlap(one: tuple[Point, Size], other: tuple[Point, Size]) -> bool:
    (x0, y0), (width0, height0) = one
    (x1, y1), (width1, height1) = other
    return abs(x0 - x1) * 2 < width0 + width1 and abs(y0 - y1) * 2 < height0 + height1


def inside(placement: Placement, point: Point) -> bool:
    return all(-0.01 <= at <= most + 0.01 for at, most in zip(point, placement.size, strict=True))


@pytest.mark.parametrize("downward", [False, True], ids=["rightward", "downward"])
@EACH
def test_boxes_and_labels_do_not_overlap(each: Lifecycle, downward: bool) -> None:
    boxes, edges = graph(each)
    placement = place(boxes, edges, downward=downward)
    labels = [(route.label, (90.0, 16.0)) for route in placement.routes]
    for one, other in combinations([*placement.boxes.values(), *labels], 2):
        assert not overlap(one, other)
    for route in placement.routes:
        assert all(inside(placement, point) for point in route.points)


@EACH
def test_routes_lead_from_their_source_to_their_target(each: Lifecycle) -> None:
    boxes, edges = graph(each)
    placement = place(boxes, edges, downward=True)
    for edge, route in zip(edges, placement.routes, strict=True):
        for name, (x, y) in ((edge.source, route.points[0]), (edge.target, route.points[-1])):
            (left, top), (width, height) = placement.boxes[name]
            assert abs(x - left) <= width / 2
            assert abs(abs(y - top) - height / 2) < 0.01  # on its upper or lower border


def test_a_box_without_edges_is_placed_too() -> None:
    placement = place({"a": (10, 10), "b": (10, 10)}, [], downward=True)
    assert not overlap(placement.boxes["a"], placement.boxes["b"])
