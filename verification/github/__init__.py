"""A GitHub for tests: REST, GraphQL and webhooks of the part that detent uses, with real git."""
