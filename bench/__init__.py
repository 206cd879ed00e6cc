"""Benchmarks and comparisons with other tools; see README.md. Never imported by detent."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
