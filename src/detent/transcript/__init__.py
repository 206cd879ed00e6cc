"""The transcript of an agent's run: its JSON lines as messages, tool calls, edits and costs."""
