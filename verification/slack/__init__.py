"""A local Slack for tests."""
