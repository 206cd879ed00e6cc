"""The Notion sync: pages for tasks, runs and the state of the system."""
