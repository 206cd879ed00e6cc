"""The transcript of a run: its output as messages, tool calls, edits and costs, page by page.

The output is parsed in chunks until the page is full, so a page of a large output takes little
memory, and the first page little time.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from detent import views
from detent.errors import Invalid
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.output_times import read_times
from detent.operations.registry import Caller, Scope, operation
from detent.operations.run_output import read_bytes
from detent.operations.runs import LIVE
from detent.transcript.transcript_item import TranscriptItem
from detent.transcript.transcript_parser import TranscriptParser

#: How much of the output is parsed at a time.
CHUNK_BYTES = 131_072
MAX_ITEMS = 1_000
#: A page ends when its items have this number of characters, or when this much was searched.
MAX_PAGE_SIZE = 1_048_576
MAX_SEARCHED_BYTES = 16_777_216
LONGEST_QUERY = 200


class _Wanted(NamedTuple):
    """The items of a page: those after a number that contain a text."""

    after: int
    limit: int
    text: str


@operation(Scope.READ, "GET", "/api/runs/{run_id}/transcript")
def run_transcript(
    core: Core, caller: Caller, *, run_id: str, after: int = 0, limit: int = 200, q: str = ""
) -> schemas.Transcript:
    """Read the output of an agent's run as messages, tool calls, edits and costs.

    Any other run has one item for each line of its output.
    """
    if after < 0:
        raise Invalid(f"after must be 0 or more, not {after}.", field="after", given=after)
    if not 1 <= limit <= MAX_ITEMS:
        raise Invalid(
            f"limit must be from 1 to {MAX_ITEMS}, not {limit}.", field="limit", given=limit
        )
    run = core.run(caller, run_id)
    return _page(core, run, _Wanted(after, limit, q.casefold()))


def _page(core: Core, run: Mapping[str, Any], wanted: _Wanted) -> schemas.Transcript:
    """`ended` is read before the output, so the end is never reported before all items."""
    ended = run["state"] not in LIVE
    parser = core.transcripts.last_before(run["id"], wanted.after)
    if parser is None:
        parser = TranscriptParser(preset_of(core, _intent(core, run)))
    parser.time_at = read_times(core.store, core.settings.data_dir, run["id"]).at
    found: list[schemas.TranscriptItem] = []
    last, size, begun, complete = wanted.after, 0, None, True
    for item in _items(core, run["id"], parser, ended):
        if item.number <= wanted.after:
            continue
        begun = parser.offset if begun is None else begun
        last = item.number
        if not wanted.text or item.contains(wanted.text):
            found.append(_shown(item))
            size += item.size()
        searched = parser.offset - begun
        if len(found) == wanted.limit or size > MAX_PAGE_SIZE or searched > MAX_SEARCHED_BYTES:
            complete = False
            break
    return {"items": found, "next": None if complete and ended else last, "ended": ended}


def _items(
    core: Core, run_id: str, parser: TranscriptParser, ended: bool
) -> Iterator[TranscriptItem]:
    """The items from the parser's position to the end of the output."""
    offset, data_dir = parser.offset, core.settings.data_dir
    while chunk := read_bytes(core.store, data_dir, run_id, offset, CHUNK_BYTES):
        core.transcripts.add(run_id, parser.position())
        yield from parser.feed(chunk)
        offset += len(chunk)
    if ended:
        yield from parser.end()


def whole_transcript(core: Core, run_id: str, intent: str) -> Iterator[TranscriptItem]:
    """The items of a run that has ended, from at most `MAX_SEARCHED_BYTES` of its output."""
    parser = TranscriptParser(preset_of(core, intent))
    parser.time_at = read_times(core.store, core.settings.data_dir, run_id).at
    for item in _items(core, run_id, parser, ended=True):
        yield item
        if parser.offset > MAX_SEARCHED_BYTES:
            return


def _intent(core: Core, run: Mapping[str, Any]) -> str:
    with core.store.read() as view:
        return next((job.intent for job, _ in view.jobs([run["job_id"]])), "")


def preset_of(core: Core, intent: str) -> str | None:
    """The preset of the intent's agent, if the configuration of this process has it."""
    agent = agent_of(core, intent)
    preset = None if agent is None else core.agents.get(agent, {}).get("preset", agent)
    return preset if isinstance(preset, str) else None


def agent_of(core: Core, intent: str) -> str | None:
    """The name of the intent's agent, if the configuration of this process has it."""
    agent = core.intents.get(intent, {}).get("agent")
    return agent if isinstance(agent, str) else None


def _shown(item: TranscriptItem) -> schemas.TranscriptItem:
    at = None if item.at is None else views.utc(item.at)
    return {**item._asdict(), "at": at}  # type: ignore[typeddict-item]
