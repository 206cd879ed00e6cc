"""The Python client of a gateway: the operations by name, over HTTP, with detent's own errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from detent import errors
from detent.codes import CODES
from detent.operations import OPERATIONS
from detent.operations.registry import Operation


class Client:
    """Ask a gateway for an operation: `client.call("show_task", task_id=…)`."""

    def __init__(self, url: str, token: str, timeout_s: float = 30.0) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout_s)

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """The operation's answer; its refusal is raised as the error that it is."""
        request = _request(OPERATIONS[operation], arguments)
        try:
            response = self._http.request(**request)
        except httpx2.HTTPError as error:
            raise errors.Unavailable(
                f"{self.url} does not answer: {error}", retry_after_s=1
            ) from None
        if response.is_success:
            return msgspec.json.decode(response.content) if response.content else None
        raise _error(response.status_code, response.content)

    def close(self) -> None:
        self._http.close()


def _request(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The HTTP request for an operation: path parameters, then query or body."""
    path = operation.path.format_map(arguments)
    rest = {
        name: value
        for name, value in arguments.items()
        if f"{{{name}}}" not in operation.path and value is not None
    }
    key = rest.pop("idempotency_key", None)
    headers = {} if key is None else {"Idempotency-Key": key}
    request: dict[str, Any] = {"method": operation.method, "url": path, "headers": headers}
    if operation.method in ("GET", "DELETE"):
        return {**request, "params": rest}
    headers["Content-Type"] = "application/json"
    body = rest if operation.whole is None else rest[operation.whole]
    return {**request, "content": msgspec.json.encode(body)}


def _error(status: int, content: bytes) -> errors.DetentError:
    """The error that a problem document describes."""
    try:
        problem = msgspec.json.decode(content)
        code, detail = problem["code"], problem["detail"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return errors.Unavailable(
            f"The gateway answered {status} without a reason.", retry_after_s=1
        )
    return errors.DetentError(
        detail, code=code if code in CODES else "unavailable", hint=problem.get("hint")
    )


def read_token(data_dir: Path) -> str:
    """The token that the first start has made."""
    try:
        return (data_dir / "token").read_text("ascii").strip()
    except OSError as error:
        raise errors.Misconfigured(
            f"The token in {data_dir} cannot be read: {error.strerror}.",
            setting="store.data_dir",
            hint="Start detent once with `detent up`, or run as the user who did.",
        ) from None
