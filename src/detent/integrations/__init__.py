"""What tells the outside: metrics, webhooks, Notion and traces, all read from the feed."""
