"""An installation and a local Slack for tests: messages by hand, clicks over HTTP or a socket."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from detent.integrations.slack.slack_api import SlackApi, web_client
from detent.integrations.slack.slack_config import slack_config
from detent.integrations.slack.slack_messages import Messages, SlackKeeper
from detent.integrations.slack.slack_replies import MAX_THREADS, Replies
from detent.operations.registry import Caller, Scope
from detent.operations.tokens import issue
from detent.settings import Settings
from tests.operations.operations_client import OperationsClient
from verification.slack.slack_server import Posted, SlackServer, serving

ADA, EVE, STRANGER = "U0ADA0001", "U0EVE0001", "U0NEW0001"
WEB, OPS = "C0WEB0001", "C0OPS0001"
#: What ada may do; eve may only read.
SCOPES = {"ada": (Scope.READ, Scope.REVIEW, Scope.OPERATE), "eve": (Scope.READ,)}


def settings_for(url: str, server: SlackServer, directory: Any, **more: Any) -> Settings:
    """Settings of an installation that uses this server; the secrets are in files."""
    secrets = {
        "slack_bot_token": server.bot_token,
        "slack_app_token": server.app_token,
        "slack_signing_secret": server.signing_secret,
    }
    for name, secret in secrets.items():
        (directory / name).write_text(secret)
    files = {name: f"file:{directory / name}" for name in secrets}
    wanted = {
        **files,
        "slack_url": url,
        "slack_channels": (f"{WEB} project=web",),
        "slack_users": (f"{ADA}=ada", f"{EVE}=eve"),
        **more,
    }
    return Settings(**wanted)


class SlackWorld(OperationsClient):
    """An installation in memory, with one pass of the service per `sync`."""

    def __init__(self, server: SlackServer, settings: Settings) -> None:
        super().__init__()
        self.server = server
        self._settling = threading.Lock()
        server.clock = lambda: self.clock.now / 1_000_000
        self.core.settings = settings
        for name, scopes in SCOPES.items():
            self.core.engine.transaction(partial(issue, caller=Caller(name, frozenset(scopes))))
        self.keeper = self.new_process()
        config = slack_config(settings)
        self.replies = Replies(
            self.core, config, SlackApi(web_client(config.url, config.bot_token))
        )

    def new_process(self) -> SlackKeeper:
        """The service of a process that has just started."""
        return SlackKeeper(self.core, "here")

    def messages(self) -> Messages:
        config = slack_config(self.core.settings)
        api = SlackApi(web_client(config.url, config.bot_token))
        return Messages(self.core, config, api)

    def sync(self) -> None:
        while self.keeper.service.run_once():
            pass

    def shown(self, channel: str = WEB) -> list[Posted]:
        return self.server.in_channel(channel)

    def only(self, channel: str = WEB) -> Posted:
        (one,) = self.shown(channel)
        return one

    def click(self, user: str, action: str, posted: Posted | None = None, **more: Any) -> int:
        """Press a button over HTTP; returns the status of the response."""
        payload = self.server.press(user, posted or self.only(), action, **more)
        return self.send(payload)[0]

    def fill(self, user: str, text: str) -> dict[str, Any]:
        """Send the last dialog with this value; returns what Slack is to do with the dialog."""
        status, body = self.send(self.server.submit(user, text))
        assert status == 200
        return json.loads(body) if body else {}

    def send(self, payload: dict[str, Any], at: float | None = None) -> tuple[int, str]:
        headers, body = self.server.signed(payload, at=at)
        status, _, text = self.replies.receive(headers, body.decode())
        self.settle()
        return status, text

    def settle(self) -> None:
        """Wait until the listeners have returned: they go on after the acknowledgement."""
        with self._settling:
            # Each thread of the pool has ended its listener before it waits at the barrier.
            barrier = threading.Barrier(MAX_THREADS, timeout=90)
            waits = [self.replies.threads.submit(barrier.wait) for _ in range(MAX_THREADS)]
            for each in waits:
                each.result()

    # -- work ------------------------------------------------------------------------------

    def question(self, **detail: Any) -> str:
        made = self.submit(project="web", title="Deploy")
        self.suspend(detail={"text": "Which region?", **detail})
        return made

    def review(self, **fields: Any) -> str:
        made = self.submit(project="web", **fields)
        self.complete(result={"text": "All tests pass"})
        return made

    def spent(self) -> str:
        more = {"max_budget_usd": 1, "options": {"on_budget_exceeded": "ask"}}
        made = self.submit(project="web", **more)
        held = self.claim()
        self.charge(held, 1.5)
        self.suspend("budget", held, detail={})
        return made


@contextmanager
def slack_world(directory: Any, **more: Any) -> Iterator[SlackWorld]:
    server = SlackServer()
    server.add_channel(WEB)
    server.add_channel(OPS)
    with serving(server) as url:
        world = SlackWorld(server, settings_for(url, server, directory, **more))
        try:
            yield world
        finally:
            world.replies.close()
