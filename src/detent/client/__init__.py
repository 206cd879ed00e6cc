"""The Python client of a gateway, for threads and for coroutines, with detent's own errors.

Imports neither kernel nor store: only where HTTP finds the operations, and an HTTP library.
"""

from detent.client.async_client import AsyncClient, AsyncHandle
from detent.client.sync_client import Client, Handle

__all__ = ["AsyncClient", "AsyncHandle", "Client", "Handle"]
