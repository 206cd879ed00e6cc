"""Agents: command lines that print JSON lines, described by `[agents.NAME]`, run for tasks."""

from detent.worker.runners.agent.agent_runner import AgentRunner

__all__ = ["AgentRunner"]
