"""Workers: they claim jobs, carry out what handlers say, and report how it ended."""
