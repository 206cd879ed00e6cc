"""What the integrations of agent frameworks have in common, and their storage."""
