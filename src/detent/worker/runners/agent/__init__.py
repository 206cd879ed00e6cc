"""Agents: command lines that print JSON lines, configured in `[agents.NAME]`, run for tasks."""
