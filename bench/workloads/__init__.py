"""The workloads: modules with a table `BENCHMARKS`, and what they share."""
