"""Diagrams of lifecycles: the layout of boxes and edges; Mermaid, Graphviz and SVG output."""
