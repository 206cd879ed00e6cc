"""The Python client of a gateway, for threads and for coroutines, with detent's own errors.

It imports neither the kernel nor the store: only the table of routes and an HTTP library.
"""

from detent.client.async_client import AsyncClient, AsyncHandle
from detent.client.sync_client import Client, Handle

__all__ = ["AsyncClient", "AsyncHandle", "Client", "Handle"]
