"""Agents that speak the Agent Client Protocol (ACP) on their standard input and output."""
