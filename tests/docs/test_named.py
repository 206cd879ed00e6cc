"""Every command that a page names exists, with the options that the page gives it."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from detent.cli.main import cli
from tests.docs.pages import FENCE, ROOT

#: Generated pages and decisions apart: those are written from the code, these speak of a time.
PAGES = sorted(
    page
    for page in [
        *ROOT.glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
    ]
    if not {"reference", "decisions"} & {*page.parts} and page.name != "CHANGELOG.md"
)
SPAN = re.compile(r"`(detent [^`]+)`")
LINE = re.compile(r"(?:^|[$|;&(] ?|do |until |exec )(detent [^\n|;&<>)#]*)", re.MULTILINE)
OPTION = re.compile(r"(?<=\s)(--[a-z][a-z-]*|-[a-z]\b)")


def named(page: Path) -> Iterator[str]:
    """Whatever looks like a command line of detent."""
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        if found["info"].split(" ")[0] in ("sh", "console", "markdown", "ini"):
            joined = found["text"].replace("\\\n", " ")
            yield from (each.strip() for each in LINE.findall(joined))
            yield from SPAN.findall(joined)
    yield from (" ".join(each.split()) for each in SPAN.findall(FENCE.sub("", text)))


def complaint(line: str) -> str | None:
    """What is wrong with a command line, as far as names go."""
    context = click.Context(cli)
    command: click.Command = cli
    for word in line.split()[1:]:
        if not isinstance(command, click.Group):
            break
        if not word[0].isalpha():
            break
        found = command.get_command(context, word)
        if found is None and command.name != "evidence":  # which has a default
            return f"there is no command {word}"
        if found is None:
            break
        command = found
    known = {each for param in command.params for each in (*param.opts, *param.secondary_opts)}
    known |= {"-h", "--help", "--version"}
    if isinstance(command, click.Group):  # `detent evidence TASK` is short for a subcommand
        known |= {
            name
            for each in command.list_commands(context)
            if command is not cli and (sub := command.get_command(context, each)) is not None
            for param in sub.params
            for name in param.opts
        }
    unknown = [each for each in OPTION.findall(line) if each not in known]
    return f"{command.name} has no {', '.join(unknown)}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_names_exist(page: Path) -> None:
    assert [(line, why) for line in named(page) if (why := complaint(line))] == []


def test_a_command_that_is_wrong_is_noticed() -> None:
    assert complaint("detent lifecycle show review") is None
    assert complaint("detent lifecycle draw review") == "there is no command draw"
    assert complaint("detent submit x --sett a=1") == "submit has no --sett"
