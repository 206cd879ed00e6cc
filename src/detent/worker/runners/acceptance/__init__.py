"""Carries out the actions of acceptances: merges the branch of a task, or pushes it."""
