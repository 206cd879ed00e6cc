"""What each entrant runs in its own environment; these import their peer, nothing else of bench."""
