"""The dashboard's files over HTTP: open, complete, cached well, closed against all else."""

import gzip
import re
from collections.abc import Iterator

import httpx2
import pytest

from detent.gateway.static_files import BUILT, Page
from tests.gateway.installation import Installation, installed

HTML = {"Accept": "text/html,application/xhtml+xml"}
MAX_SCRIPT_BYTES = 300_000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("page")) as installation:
        yield installation


@pytest.fixture(scope="module")
def anonymous(gateway: Installation) -> httpx2.Client:
    return gateway.client(None)


def test_the_page_needs_no_token_and_holds_nothing_inline(anonymous: httpx2.Client) -> None:
    answer = anonymous.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert re.findall(r"<script(?![^>]*\bsrc=)", answer.text) == []
    assert "<style" not in answer.text
    assert re.findall(r"https?://", answer.text) == []


def test_the_policy_allows_our_own_files_and_connections_alone(
    gateway: Installation, anonymous: httpx2.Client
) -> None:
    headers = anonymous.get("/").headers
    host = f"127.0.0.1:{gateway.port}"
    directives = (each.split() for each in headers["content-security-policy"].split(";"))
    assert {name: " ".join(values) for name, *values in directives} == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "font-src": "'self'",
        "img-src": "'self' blob:",
        "connect-src": f"'self' ws://{host} wss://{host}",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_index_is_asked_for_again_and_hashed_files_never(anonymous: httpx2.Client) -> None:
    index = anonymous.get("/")
    assert index.headers["cache-control"] == "no-cache"
    assets = re.findall(r'(?:src|href)="(/assets/[^"]+)"', index.text)
    assert assets
    for path in assets:
        answer = anonymous.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]


def test_the_script_of_the_start_page_is_small(anonymous: httpx2.Client) -> None:
    index = anonymous.get("/").text
    scripts = re.findall(r'(?:src|href)="(/assets/[^"]+\.js)"', index)
    sizes = [len(gzip.compress(anonymous.get(path).content)) for path in scripts]
    assert 0 < sum(sizes) < MAX_SCRIPT_BYTES


def test_files_are_compressed_for_clients_that_accept_it(anonymous: httpx2.Client) -> None:
    squeezed = anonymous.get("/", headers={"Accept-Encoding": "gzip"})
    whole = anonymous.get("/", headers={"Accept-Encoding": "identity"})
    assert squeezed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in whole.headers
    assert squeezed.text == whole.text


def test_the_letters_come_with_the_page_and_everything_with_its_licence(
    anonymous: httpx2.Client,
) -> None:
    index = anonymous.get("/").text
    (style,) = re.findall(r'href="(/assets/[^"]+\.css)"', index)
    letters = re.findall(r"url\(([^)]+\.woff2)\)", anonymous.get(style).text)
    assert letters
    for path in letters:
        assert anonymous.get(path).headers["content-type"] == "font/woff2"
    licences = anonymous.get("/licences.txt").text
    for name in ("react", "@tanstack/react-query", "@fontsource-variable/inter"):
        assert f"{name}\n" in licences


@pytest.mark.parametrize("path", ["/board", "/tasks/abc/plan", "/inbox/x", "/system", "/nowhere"])
def test_every_address_of_the_page_opens_it(anonymous: httpx2.Client, path: str) -> None:
    answer = anonymous.get(path, headers=HTML)
    assert answer.status_code == 200
    assert '<div id="root">' in answer.text


@pytest.mark.parametrize(
    "path",
    ["/api/tasks", "/api/nothing", "/status", "/openapi.json", "/assets/no.js", "/mcp", "/metrics"],
)
def test_nothing_of_the_machines_paths_becomes_a_page(anonymous: httpx2.Client, path: str) -> None:
    answer = anonymous.get(path, headers=HTML)
    assert answer.status_code in (401, 404)
    assert "root" not in answer.text


def test_a_program_without_a_token_is_refused_on_addresses_of_the_page(
    anonymous: httpx2.Client,
) -> None:
    assert anonymous.get("/board", headers={"Accept": "application/json"}).status_code == 401
    assert anonymous.post("/board", headers=HTML).status_code == 401


def test_another_host_gets_no_page(gateway: Installation, anonymous: httpx2.Client) -> None:
    answer = anonymous.get("/", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (421, "wrong_host")


def test_the_page_head_only(anonymous: httpx2.Client) -> None:
    answer = anonymous.head("/", headers=HTML)
    assert answer.status_code == 200
    assert answer.content == b""


def test_no_path_leads_out_of_the_directory(anonymous: httpx2.Client) -> None:
    for path in ("/assets/../../__init__.py", "/assets/%2e%2e/%2e%2e/__init__.py", "/.digest"):
        assert anonymous.get(path).status_code == 401


def test_a_clone_without_the_built_page_says_what_to_do() -> None:
    page = Page(BUILT / "nowhere")
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    answer = page.find(scope, "127.0.0.1", lambda _: False)
    assert answer is not None
    assert b"./dev up" in bytes(answer.body)
