"""The keeper: the scheduler and maintenance process, of which one is elected at a time."""
