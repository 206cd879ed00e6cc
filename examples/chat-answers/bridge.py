"""A bridge between detent and a chat: it posts questions to the chat and sends answers to detent.

POST /detent receives signed webhooks. POST /chat receives chat messages such as
{"user": "ada", "text": "answer TASK yes"}. Uses the standard library and detent's client.
"""

import base64
import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from detent import Client
from detent.errors import DetentError

KEY = os.environ["BRIDGE_KEY"]
PORT = int(os.environ.get("BRIDGE_PORT", "8090"))
TOLERANCE_S = 300
#: Ids of processed webhooks, which are delivered at least once. A restart forgets them.
seen: set[str] = set()


def is_genuine(headers: Any, body: str) -> bool:
    """Check the signature of the Standard Webhooks scheme: HMAC-SHA256 over id, time and body."""
    at = headers["webhook-timestamp"]
    if abs(time.time() - int(at)) > TOLERANCE_S:
        return False
    secret = base64.b64decode(KEY.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{at}.{body}".encode()
    wanted = b"v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest())
    given = headers["webhook-signature"].encode().split()
    return any(hmac.compare_digest(wanted, each) for each in given)


def post_to_chat(text: str) -> None:
    """Post a message. Replace this with a call to your chat."""
    print(f"chat: {text}", flush=True)


def on_task_blocked(event: dict[str, Any]) -> None:
    """Post the question to the chat if a question blocks the task."""
    data = event["data"]["data"]
    if data["reason"] == "question":
        detail, task = data["detail"], event["subject"]
        options = " or ".join(map(str, detail.get("options") or ["TEXT"]))
        post_to_chat(f"{detail['text']} Write: answer {task} {options}")


def on_message(user: str, text: str) -> str:
    """Send the answer in a chat message to detent; return the reply for the chat."""
    verb, _, rest = text.partition(" ")
    task_id, _, answer = rest.partition(" ")
    if verb != "answer" or not answer:
        return "Write: answer TASK TEXT"
    try:
        with Client() as client:  # uses DETENT_URL and DETENT_TOKEN
            client.call("answer_task", task_id=task_id, answer=answer)
    except DetentError as error:
        return f"{error.message} {error.hint}"
    return f"Thank you, {user}."


class Bridge(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/detent":
            self.webhook(body)
        elif self.path == "/chat":
            message = json.loads(body)
            self.reply(200, on_message(message["user"], message["text"]))
        else:
            self.reply(404, "not found")

    def webhook(self, body: str) -> None:
        if not is_genuine(self.headers, body):
            self.reply(401, "invalid signature")
            return
        if self.headers["webhook-id"] not in seen:
            on_task_blocked(json.loads(body))
            seen.add(self.headers["webhook-id"])
        self.reply(200, "ok")

    def reply(self, status: int, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", PORT), Bridge) as server:
        print("Ready", flush=True)
        server.serve_forever()
