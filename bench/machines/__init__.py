"""Several machines: gateways and workers in network namespaces of their own, one PostgreSQL."""
