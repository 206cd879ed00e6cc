"""Integrations that follow the event feed: metrics, webhooks, Notion and traces; and MCP."""
