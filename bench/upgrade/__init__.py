"""A rolling upgrade to a simulated next release under load."""
