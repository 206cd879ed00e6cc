"""Fuzzing of every parser of outside input: the parsers, their kept inputs, and the driver."""
