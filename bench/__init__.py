"""Benchmarks: speed as ratios, measured side by side in one run. Never imported by detent."""
