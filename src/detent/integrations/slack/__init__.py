"""Slack: questions, reviews and budgets in a channel, and the replies to them."""
