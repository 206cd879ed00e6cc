"""The rows of the table `review_drafts`: one for each draft, under `TASK/AUTHOR/DRAFT`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from detent import views
from detent.operations import schemas
from detent.operations.comment_threads import Places, Thread, place_schema
from detent.review.comment_places import Anchor
from detent.store.port import ReadTransaction

TABLE = "review_drafts"
#: The maximum number of drafts of one author about one task.
MAX_DRAFTS = 500


class DraftRow(NamedTuple):
    """A draft of a comment (with an anchor and the run of its diff) or of a reply."""

    id: str
    at: int
    text: str
    reply_to: str | None = None
    anchor: Anchor | None = None
    run_id: str | None = None


def row_name(task_id: str, author: str, draft_id: str) -> str:
    return f"{task_id}/{author}/{draft_id}"


def own_drafts(view: ReadTransaction, task_id: str, author: str) -> list[DraftRow]:
    """The drafts of an author about a task, oldest first."""
    prefix = row_name(task_id, author, "")
    return drafts_in(view.rows_under(TABLE, prefix), prefix)


def drafts_in(rows: Mapping[str, Any], prefix: str) -> list[DraftRow]:
    """The drafts of these rows, whose names begin with the prefix, oldest first."""
    found = [_read(name.removeprefix(prefix), row) for name, row in rows.items()]
    return sorted(found, key=lambda each: (each.at, each.id))


def _read(draft_id: str, row: Mapping[str, Any]) -> DraftRow:
    anchor = None
    if row["anchor"] is not None:
        diff, file, side, start, end, quoted = row["anchor"]
        anchor = Anchor(diff, file, side, start, end, tuple(quoted))
    return DraftRow(draft_id, row["at"], row["text"], row["reply_to"], anchor, row["run_id"])


def to_row(draft: DraftRow) -> dict[str, Any]:
    return {
        "at": draft.at,
        "text": draft.text,
        "reply_to": draft.reply_to,
        "anchor": None if draft.anchor is None else list(draft.anchor),
        "run_id": draft.run_id,
    }


def published_ids(threads: Sequence[Thread], author: str) -> Collection[str]:
    """The ids of an author's comments and replies: a draft with such an id was published."""
    own = {each.id for each in threads if each.author == author}
    return own | {reply.id for each in threads for reply in each.replies if reply.author == author}


def draft_schemas(
    drafts: Iterable[DraftRow], author: str, threads: Sequence[Thread], places: Places
) -> list[schemas.Draft]:
    """The drafts of an author that are not published, with their places in a diff."""
    published = published_ids(threads, author)
    return [_to_schema(each, places) for each in drafts if each.id not in published]


def _to_schema(draft: DraftRow, places: Places) -> schemas.Draft:
    anchor = draft.anchor
    return {
        "id": draft.id,
        "at": views.utc(draft.at),
        "text": draft.text,
        "reply_to": draft.reply_to,
        "anchor": None
        if anchor is None
        else {
            "diff": anchor.diff,
            "file": anchor.file,
            "side": anchor.side,
            "start": anchor.start,
            "end": anchor.end,
        },
        "place": None if anchor is None else place_schema(places.place(anchor)),
    }
