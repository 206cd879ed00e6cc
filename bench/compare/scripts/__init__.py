"""A script for each tool; the interpreter of its environment runs it."""
