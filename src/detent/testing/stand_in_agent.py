"""A scripted stand-in for an agent's command line: `python stand_in_agent.py -p PROMPT …`.

It speaks as Claude Code does without a person: JSON lines, sessions in its configuration directory,
exit codes. A script (STAND_IN_SCRIPT: a file, or the JSON itself) says what it does in each run of
a working directory: `{"runs": [[step, …], …]}`, each step a table with one key of `STEPS`. It
imports nothing of detent.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

#: With this marker a total is that of the session and not of the run.
SINCE: Mapping[str, Any] = {"model_usage_since_last_result": {}}
#: The id of a comment in the prompt.
COMMENT_ID = re.compile(r"^Comment \d+ \(id ([^)\s]+)\):", re.MULTILINE)
FLOOD_LINE = b"all work and no play makes a dull boy\n"


class Budget(Exception):
    """The last call has passed the budget of this run."""


class Turns(Exception):
    """It has used all turns that it may take."""


class Session:
    """What the agent remembers: one file for each session, by the directory that it works in."""

    def __init__(self, config: Path, session_id: str) -> None:
        place = hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:16]
        self.id = session_id
        self.file = config / "projects" / place / f"{session_id}.json"
        self.facts: dict[str, Any] = {"cost": 0.0, "prompts": []}
        #: The cost when this run began, and what it has used since.
        self.before = 0.0
        self.tokens = [0, 0]
        self.turns = 0

    def load(self) -> bool:
        if not self.file.exists():
            return False
        self.facts = json.loads(self.file.read_text())
        self.before = self.facts["cost"]
        return True

    def save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_suffix(".part")
        draft.write_text(json.dumps(self.facts))
        draft.replace(self.file)


class StandIn:
    """One run of the stand-in."""

    def __init__(self, options: argparse.Namespace, session: Session) -> None:
        self.options, self.session = options, session
        self.denied: list[dict[str, Any]] = []
        self.allocated = b""

    # -- speaking --------------------------------------------------------------------------

    def line(self, kind: str, **fields: Any) -> None:
        content = {"type": kind, "session_id": self.session.id, **fields}
        os.write(1, json.dumps(content).encode() + b"\n")

    def begin(self) -> None:
        self.line(
            "system",
            subtype="init",
            cwd=str(Path.cwd()),
            tools=["Bash", "Edit"],
            mcp_servers=[],
            model=self.options.model or "stand-in",
            permissionMode="default",
            version="0",
        )

    def result(self, subtype: str, is_error: bool, **fields: Any) -> NoReturn:
        """The last line, and the exit code that goes with it."""
        session = self.session
        content = {
            "subtype": subtype,
            "is_error": is_error,
            "num_turns": session.turns,
            "duration_ms": 1,
            "total_cost_usd": round(session.facts["cost"], 6),
            "usage": {"input_tokens": session.tokens[0], "output_tokens": session.tokens[1]},
            "permission_denials": self.denied,
            "terminal_reason": "completed",
            "errors": [],
            **SINCE,
        }
        self.line("result", **{**content, **fields})
        sys.exit(1 if is_error else 0)

    # -- steps -----------------------------------------------------------------------------

    def perform(self, steps: list[Mapping[str, Any]]) -> NoReturn:
        try:
            for step in steps:
                for name, value in step.items():
                    STEPS[name](self, value)
        except Budget:
            self.result("error_max_budget_usd", True, errors=["Reached maximum budget"])
        except Turns:
            self.result("error_max_turns", True, errors=["Reached maximum number of turns"])
        self.result("success", False, result="done")

    def say(self, text: str) -> None:
        self._turn()
        self.line("assistant", message={"content": [{"type": "text", "text": text}]})

    def tool(self, name: str) -> None:
        self._turn()
        content = [{"type": "tool_use", "name": name, "input": {}}]
        self.line("assistant", message={"content": content})
        self.line("user", message={"content": [{"type": "tool_result", "content": "ok"}]})

    def _turn(self) -> None:
        self.session.turns += 1
        most = self.options.max_turns
        if most is not None and self.session.turns > most:
            raise Turns

    def cost(self, dollars: float) -> None:
        """A call with this cost; the budget is checked after it."""
        session = self.session
        session.facts["cost"] = round(session.facts["cost"] + dollars, 6)
        session.save()
        self.line("system", subtype="usage", total_cost_usd=session.facts["cost"], **SINCE)
        most = self.options.max_budget_usd
        if most is not None and session.facts["cost"] - session.before > most:
            raise Budget

    def tokens(self, counts: list[int]) -> None:
        self.session.tokens = [a + b for a, b in zip(self.session.tokens, counts, strict=True)]

    def lie(self, total: Any) -> None:
        """Claim a total that is not true, or no number."""
        self.line("system", subtype="usage", total_cost_usd=total, **SINCE)

    def retry(self, facts: Mapping[str, Any]) -> None:
        self.line("system", subtype="api_retry", attempt=1, **facts)

    def deny(self, tools: list[str]) -> None:
        for tool in tools:
            self.denied.append({"tool_name": tool, "tool_use_id": "t", "tool_input": {}})
            self.line("system", subtype="permission_denied", tool_name=tool)

    def api_error(self, status: int) -> NoReturn:
        self.result(
            "success",
            True,
            result=f"API Error: {status}",
            terminal_reason="api_error",
            api_error_status=status,
        )

    def finish(self, fields: Mapping[str, Any]) -> NoReturn:
        """End with a result line of any content."""
        content = dict(fields)
        self.result(content.pop("subtype", "success"), content.pop("is_error", False), **content)

    # -- faults ----------------------------------------------------------------------------

    def raw(self, text: str) -> None:
        os.write(1, text.encode())

    def hexadecimal(self, text: str) -> None:
        os.write(1, bytes.fromhex(text))

    def stderr(self, text: str) -> None:
        os.write(2, text.encode())

    def flood(self, size: int) -> None:
        block = FLOOD_LINE * 1_000
        for _ in range(max(1, size // len(block))):
            _write_all(block)

    def huge(self, size: int) -> None:
        """One line of this many bytes."""
        _write_all(b'{"type": "assistant", "text": "')
        block = b"x" * 65_536
        for _ in range(max(1, size // len(block))):
            _write_all(block)
        _write_all(b'"}\n')

    def ignore(self, name: str) -> None:
        signal.signal(signal.Signals[name], signal.SIG_IGN)

    def hang(self, seconds: float) -> None:
        """Wait, saying nothing."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.05)

    def allocate(self, megabytes: int) -> None:
        """Use memory until the end of the run."""
        self.allocated = b"x" * (megabytes * 1_048_576)

    def spawn(self, how: Mapping[str, Any]) -> None:
        """A child that outlives this process unless it is ended; its id is written to a file."""
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
        child = subprocess.Popen(
            [sys.executable, "-c", code], start_new_session=bool(how.get("escape"))
        )
        Path(how["pid_file"]).write_text(str(child.pid))

    def kill(self, name: str) -> None:
        """Be ended from outside, by that signal."""
        os.kill(os.getpid(), signal.Signals[name])
        time.sleep(5)

    def exit(self, code: int) -> NoReturn:
        """End without a result line."""
        sys.exit(code)

    # -- files -----------------------------------------------------------------------------

    def ask(self, question: Any) -> None:
        """The question file: a table as JSON, a text as it is."""
        text = question if isinstance(question, str) else json.dumps(question)
        Path(os.environ["DETENT_QUESTION_FILE"]).write_text(text)

    def ask_badly(self, how: str) -> None:
        """A question file that is none."""
        file = Path(os.environ["DETENT_QUESTION_FILE"])
        other = Path("other.json")
        other.write_text('{"text": "really?"}')
        if how == "symlink":
            file.symlink_to(other.absolute())
        elif how == "hardlink":
            file.hardlink_to(other)
        elif how == "fifo":
            os.mkfifo(file)
        elif how == "directory":
            file.mkdir()
        else:
            file.write_bytes(b"?" * 10_000_000)

    def reply(self, how: Any) -> None:
        """Reply to every comment: a text by the replies file, `{"http": text}` by the endpoint."""
        if isinstance(how, str):
            ids = COMMENT_ID.findall(self.options.prompt)
            self.reply_lines([json.dumps({"comment": each, "text": how}) for each in ids])
            return
        for each in self._send("/api/run/comments")["comments"]:
            self._send(f"/api/run/comments/{each['id']}/replies", {"text": how["http"]})

    def reply_lines(self, lines: list[str]) -> None:
        """The replies file, as it is."""
        Path(os.environ["DETENT_REPLIES_FILE"]).write_text("\n".join(lines))

    def summary(self, text: str) -> None:
        Path(os.environ["DETENT_SUMMARY_FILE"]).write_text(text)

    def evidence(self, files: Mapping[str, str]) -> None:
        for name, content in files.items():
            (Path(os.environ["DETENT_EVIDENCE_DIR"]) / name).write_text(content)

    def write(self, files: Mapping[str, str]) -> None:
        """Files in the working directory."""
        for name, content in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(content)

    def commit(self, message: str) -> None:
        self.git(["add", "--all"])
        self.git(["commit", "--quiet", "--message", message])

    def git(self, arguments: list[str]) -> None:
        """A git command in the working directory."""
        who = ["-c", "user.name=stand-in", "-c", "user.email=stand-in@example.com"]
        subprocess.run(["git", *who, *arguments], check=True, stdout=subprocess.DEVNULL)

    def post(self, request: list[Any]) -> None:
        """Send a request to an endpoint of the run: a path and a body."""
        path, body = request
        self.line("system", subtype="posted", answer=self._send(path, body))

    def _send(self, path: str, body: Any = None) -> Any:
        import urllib.request  # slow to import, and most runs do without it

        asked = urllib.request.Request(
            os.environ["DETENT_URL"] + path,
            None if body is None else json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {os.environ['DETENT_TOKEN']}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.loads(answer.read())

    def echo(self, names: list[str]) -> None:
        """Say what the environment has under these names."""
        self.line("system", subtype="environment", found={n: os.environ.get(n) for n in names})

    def look(self, paths: list[str]) -> None:
        """Say which of these paths it sees."""
        self.line("system", subtype="look", found={path: Path(path).exists() for path in paths})


STEPS: Mapping[str, Callable[[StandIn, Any], None]] = {
    "say": StandIn.say,
    "tool": StandIn.tool,
    "cost": StandIn.cost,
    "tokens": StandIn.tokens,
    "lie": StandIn.lie,
    "retry": StandIn.retry,
    "deny": StandIn.deny,
    "api_error": StandIn.api_error,
    "finish": StandIn.finish,
    "raw": StandIn.raw,
    "hex": StandIn.hexadecimal,
    "stderr": StandIn.stderr,
    "flood": StandIn.flood,
    "huge": StandIn.huge,
    "ignore": StandIn.ignore,
    "hang": StandIn.hang,
    "allocate": StandIn.allocate,
    "spawn": StandIn.spawn,
    "kill": StandIn.kill,
    "exit": StandIn.exit,
    "ask": StandIn.ask,
    "ask_badly": StandIn.ask_badly,
    "reply": StandIn.reply,
    "reply_lines": StandIn.reply_lines,
    "summary": StandIn.summary,
    "evidence": StandIn.evidence,
    "write": StandIn.write,
    "commit": StandIn.commit,
    "git": StandIn.git,
    "post": StandIn.post,
    "echo": StandIn.echo,
    "look": StandIn.look,
}


def _write_all(block: bytes) -> None:
    while block:
        block = block[os.write(1, block) :]


# ---- starting --------------------------------------------------------------------------------


def script(config: Path) -> list[Mapping[str, Any]]:
    """The steps of this run: the n-th run in a directory does what the n-th list says."""
    text = os.environ.get("STAND_IN_SCRIPT", "{}")
    if not text.lstrip().startswith("{"):
        text = Path(text).read_text()
    runs = json.loads(text).get("runs", [])
    count = config / f"runs-{hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:16]}"
    number = int(count.read_text()) if count.exists() else 0
    count.write_text(str(number + 1))
    return list(runs[number]) if number < len(runs) else []


def opened(options: argparse.Namespace, config: Path) -> StandIn:
    """In a session that is new, or goes on; refused as the real one refuses."""
    session = Session(config, options.resume or options.session_id or "no-session")
    known = session.load()
    agent = StandIn(options, session)
    if options.resume and not known:
        missing = f"No conversation found with session ID: {options.resume}"
        agent.result("error_during_execution", True, num_turns=0, errors=[missing])
    if options.session_id and not options.resume and known:
        os.write(2, f"Error: Session ID {session.id} is already in use.\n".encode())
        sys.exit(1)
    session.facts["prompts"].append(options.prompt)
    session.save()
    return agent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("-p", "--print", action="store_true")
    parser.add_argument("prompt", nargs="?", default="")
    parser.add_argument("--session-id")
    parser.add_argument("--resume")
    parser.add_argument("--model")
    parser.add_argument("--max-turns", type=int)
    parser.add_argument("--max-budget-usd", type=float)
    parser.add_argument("--output-format")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_known_args()[0]


def main() -> NoReturn:
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    home = os.environ.get("HOME", ".")
    config = Path(os.environ.get("CLAUDE_CONFIG_DIR") or f"{home}/.stand-in")
    config.mkdir(parents=True, exist_ok=True)
    agent = opened(arguments(), config)
    steps = script(config)
    agent.begin()
    with contextlib.suppress(BrokenPipeError):
        agent.perform(steps)
    sys.exit(1)


if __name__ == "__main__":
    main()
