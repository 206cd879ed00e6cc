"""A proxy on loopback that adds a token to each request, for programs that cannot send one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2

HOP_BY_HOP = ("host", "content-length", "connection", "transfer-encoding", "content-encoding")


@contextmanager
def adding_token(target: str, token: str) -> Iterator[str]:
    """The address of a proxy for the target, while it runs."""
    with httpx2.Client(base_url=target, timeout=60) as client:

        class Forward(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {n: v for n, v in self.headers.items() if n.lower() not in HOP_BY_HOP}
                headers["Authorization"] = f"Bearer {token}"
                answer = client.post(self.path, content=body, headers=headers)
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name.lower() not in HOP_BY_HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
