"""The gateway: the operations over HTTP, the live feed, and the checks at the door."""
