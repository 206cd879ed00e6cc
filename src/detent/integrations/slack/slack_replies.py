"""Carries out what people do with the buttons and dialogs of detent's messages in Slack.

Slack sends each click to a Bolt app, over Socket Mode or over HTTP with a signature that Bolt
checks. A click is carried out with the token of detent that the settings name for the Slack user,
and it is bound to the version that the message showed. Slack may deliver a click more than once:
its row `interaction:…` of the table `slack` says that it was carried out.
"""

import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
from slack_bolt import App
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request import BoltRequest

from detent import failpoints
from detent.errors import DetentError, Forbidden, Invalid, Refused
from detent.integrations.slack.slack_api import SlackApi, web_client
from detent.integrations.slack.slack_blocks import (
    ACCEPT,
    ANSWER,
    FIELD,
    OPEN,
    OPTION,
    PREFIX,
    RAISE,
    REJECT,
    STOP,
    dialog,
    escaped,
)
from detent.integrations.slack.slack_config import SlackConfig, slack_config
from detent.integrations.slack.slack_items import SEND, Reference, reference_from, settlement_of
from detent.integrations.slack.slack_messages import TABLE
from detent.operations.context import Core
from detent.operations.registry import Caller, call
from detent.operations.tokens import TOKEN, caller_from, expired, kind_of
from detent.store.port import WriteTransaction

log = logging.getLogger("detent.slack")

INTERACTION = "interaction:"
#: How long a click is remembered; Slack repeats deliveries for minutes.
REMEMBERED_US = 86_400_000_000
MAX_THREADS = 4
TIME = re.compile(r"[0-9]{1,12}")
MAX_EPHEMERAL = 3_000
#: Codes of errors that the person corrects in the dialog, which stays open.
IN_DIALOG = frozenset({"invalid", "budget_too_small", "not_an_option"})

Json = dict[str, Any]
Acknowledge = Callable[..., object]


class Click(NamedTuple):
    """A click on a button, or a dialog that was sent: who did what, where, about what."""

    id: str
    user: str
    channel: str
    action: str
    reference: Reference
    #: The text or the number of the option that a dialog contains.
    given: str = ""


class Replies:
    """The Bolt app with its listeners."""

    def __init__(self, core: Core, config: SlackConfig, api: SlackApi) -> None:
        self.core, self.config, self.api = core, config, api
        self._lock = threading.Lock()
        self.threads = ThreadPoolExecutor(MAX_THREADS, "detent-slack")
        self.app = App(
            client=web_client(config.url),
            authorize=_authorized,
            signing_secret=config.signing_secret,
            listener_executor=self.threads,
        )
        self.app.action(re.compile(f"^{PREFIX}"))(self._on_button)
        self.app.view(re.compile(f"^{PREFIX}"))(self._on_dialog)

    def close(self) -> None:
        self.threads.shutdown(wait=True)

    def receive(self, headers: Mapping[str, str], body: str) -> tuple[int, dict[str, str], str]:
        """Handle a request over HTTP; returns the status, the headers and the body.

        Bolt reads the body before it checks the signature, and expects a number as the time.
        """
        given: dict[str, str | Sequence[str]] = {
            name.lower(): value for name, value in headers.items()
        }
        if TIME.fullmatch(str(given.get("x-slack-request-timestamp", ""))) is None:
            return 401, {}, "The request has no time of Slack."
        try:
            request = BoltRequest(body=body, headers=given, mode="http")
        except (ValueError, AttributeError):
            return 400, {}, "The body is not a payload of Slack."
        found = self.app.dispatch(request)
        return found.status, {name: each[0] for name, each in found.headers.items()}, found.body

    # -- listeners -------------------------------------------------------------------------

    def _on_button(self, ack: Acknowledge, body: Json) -> None:
        name = str(body["actions"][0]["action_id"]).removeprefix(PREFIX)
        if name == OPEN:  # a link: the browser has followed it
            ack()
            return
        click = _button_click(body, name)
        if click is None:
            ack()
            log.warning("slack: a button has no reference of detent: %r", name)
            return
        if click.action in (ANSWER, REJECT, RAISE):
            ack()
            self._tell(click, self._opened(click, str(body["trigger_id"])))
            return
        problem = self._applied(click)
        ack()
        self._tell(click, problem)

    def _on_dialog(self, ack: Acknowledge, body: Json) -> None:
        click = _dialog_click(body)
        problem = self._applied(click)
        if problem is not None and problem.code in IN_DIALOG:
            ack(response_action="errors", errors={FIELD: problem.message[:MAX_EPHEMERAL]})
            return
        ack()
        self._tell(click, problem)

    # -- actions ---------------------------------------------------------------------------

    def _opened(self, click: Click, trigger_id: str) -> DetentError | None:
        """Open the dialog of a button; returns why it was refused."""
        try:
            self._open(click, trigger_id)
        except DetentError as error:
            return error
        return None

    def _open(self, click: Click, trigger_id: str) -> None:
        """Open the dialog of a button, unless the item has changed since it was shown."""
        caller = self._caller(click)
        self._check_channel(click, caller)
        self._check_version(click, caller)
        question = self._question(click) if click.action == ANSWER else {}
        options = () if question.get("other") else question.get("options") or ()
        metadata = json.dumps({"channel": click.channel, "reference": click.reference})
        self.api.open_dialog(trigger_id, dialog(click.action, metadata, options))

    def _applied(self, click: Click) -> DetentError | None:
        """Carry out a click once; returns why it was refused."""
        with self._lock:
            if self._is_known(click):
                return None
            try:
                caller = self._caller(click)
                self._check_channel(click, caller)
                operation, arguments = self._operation(click, caller)
                call(operation, self.core, caller, **arguments)
            except DetentError as error:
                if error.code not in IN_DIALOG:
                    self._remember(click)
                return error
            failpoints.hit("slack.applied")
            self._remember(click)
            return None

    def _operation(self, click: Click, caller: Caller) -> tuple[str, Json]:
        """The operation of a click, and its arguments."""
        action, reference = click.action, click.reference
        seen = {"task_id": reference.id, "seen": reference.version}
        if action in (OPTION, ANSWER):
            return self._answer(click, caller)
        if action == ACCEPT:
            return "accept_task", {**seen, "diff": reference.diff}
        if action == REJECT:
            verdict = {"comment": click.given or None, "diff": reference.diff, "run": True}
            return "reject_task", {**seen, **verdict}
        if action == RAISE:
            return "edit_task", {**seen, "max_budget_usd": _dollars(click.given)}
        if action == STOP:
            return "cancel_task", {**seen, "reason": "cancelled"}
        if action == SEND:
            return "send_event", {**seen, "event": click.given, "diff": reference.diff}
        raise Invalid(f"There is no action {action!r:.80}.", field="action")

    def _answer(self, click: Click, caller: Caller) -> tuple[str, Json]:
        reference = click.reference
        answer: Any = click.given
        if click.action == OPTION:
            self._check_version(click, caller)  # the number is of an option of that version
            options = self._question(click).get("options") or ()
            at = int(click.given) if click.given.isdecimal() else 0
            if not 1 <= at <= len(options):
                raise Invalid(f"The question has no option {click.given!r:.20}.", field="answer")
            answer = options[at - 1]
        named = {"answer": answer, "question": reference.question}
        if reference.version is None:
            return "answer_job", {"job_id": reference.id, **named}
        return "answer_task", {"task_id": reference.id, "seen": reference.version, **named}

    # -- what a click is about -------------------------------------------------------------

    def _question(self, click: Click) -> Json:
        """The question as the store has it now; empty if it was answered."""
        reference = click.reference
        with self.core.store.read() as view:
            if reference.version is not None:
                found = [dict(task.blocked_detail) for task, _ in view.tasks([reference.id])]
                return found[0] if found else {}
            named = (each for each in view.waits([reference.id]) if each.name == reference.question)
            return next((dict(each.detail) for each in named), {})

    def _check_channel(self, click: Click, caller: Caller) -> None:
        """Refuse a click from a channel that the task or job does not concern."""
        reference = click.reference
        by_job = reference.version is None
        work = (self.core.job if by_job else self.core.task)(caller, reference.id)[0]
        channel = self.config.channels.get(click.channel)
        row = {"project": work.project, "intent": work.intent}
        if channel is None or not channel.concerns(row):
            raise Forbidden(
                f"{reference.id} does not concern this channel.",
                hint="An operator can add the channel to slack.channels.",
            )

    def _check_version(self, click: Click, caller: Caller) -> None:
        """Refuse a click on a message that shows an earlier version of the task."""
        shown = click.reference.version
        if shown is None:
            return
        _, version = self.core.task(caller, click.reference.id)
        if version != shown:
            raise Refused(
                f"Task {click.reference.id} has changed: version {shown} was shown, it is now "
                f"version {version}.",
                code="version_conflict",
            )

    def _caller(self, click: Click) -> Caller:
        """The caller that a Slack user acts as: the token of detent that the settings name."""
        name = self.config.users.get(click.user)
        if name is None:
            raise Forbidden(
                f"The Slack user {click.user} is not a user of detent.",
                hint=f"An operator can add {click.user}=NAME to slack.users, with the name of "
                "a token of yours, and restart detent.",
            )
        with self.core.store.read() as view:
            rows, now = view.rows("tokens"), view.now()
        for key, row in rows.items():
            if row["name"] == name and kind_of(row) == TOKEN and not expired(row, now):
                return caller_from(row, key)
        raise Forbidden(
            f"The token {name} is revoked or expired, or never existed.",
            hint=f"An operator can create it: `detent tokens create {name} --scope review`.",
        )

    # -- once ------------------------------------------------------------------------------

    def _is_known(self, click: Click) -> bool:
        with self.core.store.read() as view:
            return click.id in view.rows_under(TABLE, click.id)

    def _remember(self, click: Click) -> None:
        def write(tx: WriteTransaction) -> None:
            now = tx.now()
            known = tx.rows_for_update(TABLE, INTERACTION)
            old = {name: None for name, at in known.items() if at <= now - REMEMBERED_US}
            tx.put_rows(TABLE, {**old, click.id: now})

        self.core.engine.transaction(write)

    def _tell(self, click: Click, problem: DetentError | None) -> None:
        """Tell the person why nothing was done, in a message that only they see."""
        if problem is None:
            return
        text = escaped(" ".join(self._explanation(click, problem)), MAX_EPHEMERAL)
        try:
            self.api.tell(click.channel, click.user, text)
        except DetentError as error:
            log.warning("slack: %s was not notified: %s", click.user, error)

    def _explanation(self, click: Click, problem: DetentError) -> Iterator[str]:
        """Why the click was refused, and the current state of the task if that is the reason."""
        yield f"This click changed nothing. {problem.message}"
        shown = click.reference.version
        if not isinstance(problem, Refused) or shown is None:
            yield problem.hint or ""
            return
        with self.core.store.read() as view:
            task = next((each for each, _ in view.tasks([click.reference.id])), None)
            settled = settlement_of(view, click.reference.id, None, shown, 0)
        if settled.actor:
            yield f"{settled.what} by {settled.actor}."
        yield "It was deleted." if task is None else f"It is {task.state_text} now."


def _authorized(team_id: str | None, enterprise_id: str | None) -> AuthorizeResult:
    """Accept every request: it came over detent's own connection, or with Slack's signature.

    Bolt would otherwise ask Slack about the token first, and drop clicks while that fails.
    """
    return AuthorizeResult(team_id=team_id, enterprise_id=enterprise_id)


# ---- payloads --------------------------------------------------------------------------------


def _button_click(body: Json, name: str) -> Click | None:
    """The click; None if its button is not one of detent's."""
    action, _, given = name.partition(":")
    pressed = body["actions"][0]
    channel, user = body["channel"]["id"], body["user"]["id"]
    at = (channel, body["container"]["message_ts"], user, name, pressed["action_ts"])
    try:
        reference = reference_from(pressed["value"])
    except msgspec.DecodeError:
        return None
    return Click(_id(*at), user, channel, action, reference, "" if action == RAISE else given)


def _dialog_click(body: Json) -> Click:
    view = body["view"]
    action = str(view["callback_id"]).removeprefix(PREFIX)
    field = view["state"]["values"][FIELD][FIELD]
    chosen = field.get("selected_option")
    given = str(field.get("value") or "") if chosen is None else str(chosen["value"])
    about = json.loads(view["private_metadata"])
    reference = Reference(*about["reference"])
    kind = OPTION if chosen is not None else action
    user = body["user"]["id"]
    ident = _id(view["id"], user, given)
    return Click(ident, user, about["channel"], kind, reference, given)


def _id(*parts: object) -> str:
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{INTERACTION}{digest}"


def _dollars(text: str) -> float:
    try:
        return float(text.strip().removeprefix("$").replace(",", "."))
    except ValueError:
        raise Invalid(
            f"The budget must be an amount in dollars, such as 12.50, not {text!r:.40}.",
            field="max_budget_usd",
        ) from None


def replies(core: Core) -> Replies:
    """The replies of an installation, with a connection to Slack."""
    config = slack_config(core.settings)
    return Replies(core, config, SlackApi(web_client(config.url, config.bot_token)))
