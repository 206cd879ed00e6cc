"""Reads the graph of states that TLC writes in DOT: the states and the transitions. Pure."""

import re
from typing import NamedTuple

from detent.kernel.task_lifecycle import TaskLifecycle
from detent.lifecycle_tla import Bounds, configuration, export
from detent.lifecycle_tla.checker import Model, run
from detent.lifecycle_tla.export import module_name
from detent.lifecycle_tla.tla_values import read_value
from verification.lifecycle_model.projection import ModelState, Variables, model_state

NODE = re.compile(r'^(-?\d+) \[label="tasks = (.*?)"(?:,style = filled)?\];?$', re.M)
EDGE = re.compile(r'^(-?\d+) -> (-?\d+) \[label="(\w+)', re.M)


class Graph(NamedTuple):
    """States, and transitions between different states."""

    states: frozenset[ModelState]
    transitions: frozenset[tuple[ModelState, ModelState]]


def state_graph(lifecycle: TaskLifecycle, bounds: Bounds) -> Graph:
    """Return the graph of the model of a lifecycle."""
    settings = configuration(lifecycle, bounds._replace(ends=False), (), ())
    found = run(Model(module_name(lifecycle), export(lifecycle), settings), dump=True)
    graph = read_graph(found.graph)
    if len(graph.states) != found.distinct:
        raise AssertionError(f"TLC found {found.distinct} states and wrote {len(graph.states)}")
    return graph


def read_graph(text: str) -> Graph:
    states = {number: _state(label) for number, label in NODE.findall(text)}
    edges = {(states[before], states[after]) for before, after, _ in EDGE.findall(text)}
    return Graph(
        frozenset(states.values()), frozenset(edge for edge in edges if edge[0] != edge[1])
    )


def _state(label: str) -> ModelState:
    printed = label.replace("\\n", "\n").replace('\\"', '"')
    tasks = read_value(printed)
    return model_state({name: Variables(**fields) for name, fields in tasks.items()})
