"""The MCP server: tools, resources and tasks for agents."""
