"""The demo that `detent demo` runs: real processes, a simulated agent, and a check of the log."""
