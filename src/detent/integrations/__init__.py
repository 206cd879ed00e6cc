"""Integrations: webhooks, Notion, Slack, forges, MCP, A2A, telemetry and agent frameworks."""
