"""The A2A server: tasks for agents of other systems."""
