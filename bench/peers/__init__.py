"""Other tools: each is installed at pinned versions into an environment of its own."""
