"""Forges: issues become tasks, and the work of agents becomes pull requests that people review."""
