"""A hostile page beside a dashboard that is signed in: it cannot act, read, listen or frame."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.dashboard.scenes import Scene


class Hostile(BaseHTTPRequestHandler):
    """An empty page on another port of this machine: the same site, another origin."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>hostile</title>")

    def log_message(self, *_: object) -> None:
        """Write no access log."""


@pytest.fixture
def hostile(context: BrowserContext) -> Iterator[Page]:
    """A page of the other origin, in the browser that holds detent's cookie."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    opened = context.new_page()
    opened.goto(f"http://127.0.0.1:{server.server_port}/")
    yield opened
    opened.close()
    server.shutdown()
    thread.join()
    server.server_close()


def head(detent: Scene) -> int:
    events = detent.get("/api/log?limit=1000")["events"]
    return int(events[-1]["position"]) if events else 0


#: Requests that a page may send to anywhere without asking first, with the cookie.
POST = """async ([url, type]) => {
  try {
    await fetch(url, {
      method: "POST", mode: "no-cors", credentials: "include",
      headers: { "Content-Type": type },
      body: JSON.stringify({ intent: "change", source: "api", run: true }),
    });
    return "sent";
  } catch (error) { return String(error); }
}"""
READ = """async (url) => {
  try { return await (await fetch(url, { credentials: "include" })).text(); }
  catch (error) { return "refused"; }
}"""
LISTEN = """(url) => new Promise((resolve) => {
  const socket = new WebSocket(url);
  socket.onmessage = (event) => resolve(`heard ${event.data}`);
  socket.onerror = () => resolve("refused");
  socket.onclose = () => resolve("refused");
})"""
FRAME = """(url) => new Promise((resolve) => {
  const frame = document.createElement("iframe");
  frame.onload = () => {
    let seen = "blocked";
    try { seen = frame.contentDocument ? "empty" : "blocked"; } catch { seen = "blocked"; }
    resolve(seen);
  };
  frame.src = url;
  document.body.append(frame);
})"""


def test_the_same_from_our_own_page_is_heard(page: Page, detent: Scene) -> None:
    """Else what is refused below could be refused for another reason."""
    page.goto(detent.url)
    before = head(detent)
    own = POST.replace('mode: "no-cors", ', "")
    page.evaluate(own, [f"{detent.url}/api/tasks", "application/json"])
    assert head(detent) > before
    # Its work ends here: other tests check that the log does not grow.
    detent.wait_for(detent.get("/api/tasks")["items"][0]["id"], "ready")
    assert "items" in page.evaluate(READ, f"{detent.url}/api/tasks")
    url = detent.url.replace("http://", "ws://") + "/api/feed?cursor=0"
    assert page.evaluate(LISTEN, url).startswith("heard")


@pytest.mark.parametrize("type_", ["text/plain", "application/json"])
@pytest.mark.parametrize("path", ["/api/tasks", "/add"])
def test_it_cannot_act(hostile: Page, detent: Scene, path: str, type_: str) -> None:
    before = head(detent)
    hostile.evaluate(POST, [detent.url + path, type_])
    assert head(detent) == before


def test_it_cannot_submit_a_form(hostile: Page, detent: Scene) -> None:
    before = head(detent)
    with hostile.expect_response(lambda answer: answer.url.endswith("/add")) as answer:
        hostile.evaluate(
            """(url) => {
              const form = document.createElement("form");
              form.method = "POST"; form.action = url; form.enctype = "text/plain";
              document.body.append(form); form.submit();
            }""",
            detent.url + "/add",
        )
    assert answer.value.status in (401, 403, 415)
    assert head(detent) == before


def test_it_cannot_read(hostile: Page, detent: Scene) -> None:
    assert hostile.evaluate(READ, f"{detent.url}/api/tasks") == "refused"


def test_it_cannot_listen(hostile: Page, detent: Scene) -> None:
    url = detent.url.replace("http://", "ws://") + "/api/feed?cursor=0"
    assert hostile.evaluate(LISTEN, url) == "refused"


def test_it_cannot_frame_the_page(hostile: Page, detent: Scene) -> None:
    with hostile.expect_console_message(lambda line: "frame" in line.text.lower()):
        hostile.evaluate(FRAME, f"{detent.url}/inbox")
