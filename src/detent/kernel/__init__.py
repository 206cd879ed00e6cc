"""The rules, pure: standard library and detent.errors only; no clock, no I/O, no randomness."""
