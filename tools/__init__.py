"""What keeps the repository itself in order. Not part of the package; run by ./dev."""
