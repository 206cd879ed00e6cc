"""Runs every case with every agent command line, and writes the table in `docs/howto/agents.md`.

`./dev agents` takes some minutes. It runs in a network namespace that has only loopback, so no
command line can reach anything else. `--cli` and `--case` choose some and write nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from tests.agent_clis.acp_profile import AGENTS
from tests.agent_clis.case_run import CaseRun
from tests.agent_clis.cases import CASES
from tests.agent_clis.cli_profile import CLIS, Cli
from tools import acp_adapters, agent_clis
from tools.web import ROOT
from verification.model_apis.model_server import ModelServer, serving

PAGE = ROOT / "docs" / "howto" / "agents.md"
BEGIN, END = "<!-- agent cases: written by ./dev agents -->", "<!-- end of agent cases -->"
#: Set in the process that runs in the namespace.
INSIDE = "DETENT_ONLY_LOOPBACK"
PASSED, FAILED = "passed", "failed"
#: The row of the adapters, and why a command line has none there.
OVER_ACP = "over ACP: permission, edit, rejected, same session"
NO_ADAPTER = "not tested: after `session/load` its request lacked an earlier turn"


def closed(argv: Sequence[str]) -> list[str]:
    """The argv of a program that runs with no network but loopback."""
    return ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--die-with-parent", "--", *argv]


def run_case(cli: Cli, name: str, server: ModelServer) -> str:
    """The outcome of one case: passed, failed, or not supported with the reason."""
    reason = cli.unsupported.get(name)
    if reason is not None:
        return f"not supported: {reason}"
    directory = Path(tempfile.mkdtemp(prefix="detent-agents-"))
    case = CaseRun(cli, directory, server)
    try:
        CASES[name](case)
        assert not case.script.problems, case.script.problems
    except Exception:
        traceback.print_exc()
        print(f"see {directory}")
        return FAILED
    finally:
        case.stop()
    shutil.rmtree(directory)
    remark = cli.remarks.get(name)
    return PASSED if remark is None else f"{PASSED}: {remark}"


def run_all(clis: Sequence[Cli], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The outcomes by command line and case; each command line has a thread."""
    with serving(ModelServer()) as server, ThreadPoolExecutor(len(clis)) as pool:
        runs = {cli.name: pool.submit(run_cases, cli, names, server) for cli in clis}
        found = {name: run.result() for name, run in runs.items()}
        assert not server.stray, server.stray
    return found


def run_cases(cli: Cli, names: Sequence[str], server: ModelServer) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        began_s = time.monotonic()
        found[name] = run_case(cli, name, server)
        took_s = time.monotonic() - began_s
        print(f"{cli.title}: {name}: {found[name]} ({took_s:.1f} s)", flush=True)
    return found


def run_acp(name: str) -> str:
    """The outcome of the story of one agent over ACP."""
    if name not in {each.name for each in AGENTS}:
        return NO_ADAPTER
    argv = [sys.executable, "-m", "tests.agent_clis.acp_story", name]
    return FAILED if subprocess.run(argv, cwd=ROOT, check=False).returncode else PASSED


def table(found: dict[str, dict[str, str]]) -> str:
    """The outcomes as a table of Markdown, with the reasons below it."""
    known = [cli for cli in CLIS if cli.name in found]
    heads = [f"{each.title} {agent_clis.version(each.name)}" for each in known]
    rows = [f"| case | {' | '.join(heads)} |", f"|---|{'---|' * len(known)}"]
    reasons: list[str] = []
    for name in (*CASES, OVER_ACP):
        cells = [_cell(found[each.name][name], reasons) for each in known]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*rows, *(["", *notes] if notes else [])])


def _cell(outcome: str, reasons: list[str]) -> str:
    kind, _, reason = outcome.partition(": ")
    if not reason:
        return kind
    if reason not in reasons:
        reasons.append(reason)
    return f"{kind} ({reasons.index(reason) + 1})"


def write(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


@click.command()
@click.option("--cli", "only", multiple=True, help="Only these command lines; writes no table.")
@click.option("--case", "names", multiple=True, help="Only cases that begin so; writes no table.")
def main(only: Sequence[str], names: Sequence[str]) -> None:
    """Run every case with every agent command line."""
    acp_adapters.install()
    if INSIDE not in os.environ:
        argv = closed([sys.executable, "-m", "tools.agent_matrix", *sys.argv[1:]])
        sys.exit(subprocess.run(argv, env={**os.environ, INSIDE: "1"}, cwd=ROOT).returncode)
    clis = [each for each in CLIS if not only or each.name in only]
    chosen = [each for each in CASES if not names or each.startswith(tuple(names))]
    found = run_all(clis, chosen)
    if not only and not names:
        for cli in clis:
            found[cli.name][OVER_ACP] = run_acp(f"{cli.name}-acp")
            print(f"{cli.title}: {OVER_ACP}: {found[cli.name][OVER_ACP]}", flush=True)
        write(table(found))
    failed = [name for cases in found.values() for name in cases if cases[name] == FAILED]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
