"""The MCP route has the authentication and the strict JSON of the other routes."""

from collections.abc import Iterator

import pytest

from detent.service import mcp_tools
from tests.gateway.installation import Installation, installed


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("mcp"), mcp_tools) as installation:
        yield installation


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def test_mcp_has_the_same_authentication_as_other_routes(gateway: Installation) -> None:
    owner = gateway.client(**ACCEPT)
    assert owner.post("/mcp", json=PING).status_code == 200
    assert gateway.client(None).post("/mcp", json=PING).json()["code"] == "unauthorized"
    wrong_host = owner.post("/mcp", json=PING, headers={"Host": "evil.example"})
    assert wrong_host.json()["code"] == "wrong_host"
    wrong_origin = owner.post("/mcp", json=PING, headers={"Origin": "https://evil.example"})
    assert wrong_origin.json()["code"] == "wrong_origin"
    text = owner.post("/mcp", content=b"{}", headers={"Content-Type": "text/plain"})
    assert text.json()["code"] == "wrong_media_type"
    assert owner.get("/mcp").status_code == 405


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"id": 1, "id": 2}', "unreadable"),
        (b'{"id": NaN}', "unreadable"),
        (b"[" * 100 + b"]" * 100, "too_large"),
        (b'{"id": 1', "unreadable"),
        (b"\xff", "unreadable"),
    ],
)
def test_mcp_has_the_same_strict_json_as_other_routes(
    gateway: Installation, body: bytes, code: str
) -> None:
    answer = gateway.client(**ACCEPT).post(
        "/mcp", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.json()["code"] == code


def test_a_revoked_token_is_refused_at_the_next_call(gateway: Installation) -> None:
    owner = gateway.client()
    made = owner.post("/api/tokens", json={"name": "mcp-guest", "scopes": ["read"]}).json()
    client = gateway.client(made["token"], **ACCEPT)
    assert client.post("/mcp", json=PING).status_code == 200
    owner.delete("/api/tokens/mcp-guest")
    assert client.post("/mcp", json=PING).status_code == 401
