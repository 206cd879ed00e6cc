"""Transitions that commands and couplings share, by topic. Pure."""
