"""The gateway: the operations over HTTP, the live feed, and authentication."""
