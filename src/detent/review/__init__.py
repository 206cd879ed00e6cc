"""Reviews of diffs: parses diffs, moves comments to other diffs of a task. Pure."""
