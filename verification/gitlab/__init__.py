"""A local GitLab for tests."""
