"""Syncs tasks, runs and system state from the log to pages in Notion. One way only.

The table `notion_pages` has the page id of each task, run and value. A row without a page id is
written before a page is created. If a later pass finds such a row, it searches Notion for the page
first, so that a crash at any point creates no page twice.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from detent import views
from detent.errors import DetentError, Misconfigured
from detent.integrations.notion.notion_api import Notion, Rejected
from detent.integrations.notion.notion_pages import (
    RUNS,
    STATE,
    TABLES,
    TASKS,
    Json,
    Row,
    Table,
    content,
    data_sources,
    digest,
    found_by,
)
from detent.integrations.tracker_keeper import TrackerKeeper
from detent.kernel.events import level_of
from detent.operations.context import Core
from detent.redaction import resolve
from detent.settings import Settings
from detent.store.port import ReadTransaction
from detent.store.types import LoggedEvent, Query

log = logging.getLogger("detent.notion")

ROLE = "notion"
CURSOR = "notion_cursor"
LAST_SYNC = "last_sync_notion"
#: The values of the system state that are synced.
SHOWN = ("queue_length", "health", "stats", "last_run", "last_heartbeat")
MAX_EVENTS = 200
#: The maximum number of batches in one pass.
MAX_BATCHES = 5
#: The maximum number of refused pages that one pass retries.
MAX_RETRIED_PAGES = 3


class Synced(NamedTuple):
    """The result of a pass."""

    created: int = 0
    updated: int = 0
    trashed: int = 0
    failed: int = 0
    #: Whether the log was read to its end.
    complete: bool = True

    def plus(self, other: "Synced") -> "Synced":
        return Synced(
            self.created + other.created,
            self.updated + other.updated,
            self.trashed + other.trashed,
            self.failed + other.failed,
            other.complete,
        )


def configured(settings: Settings) -> bool:
    return bool(settings.notion_token)


def connect(settings: Settings, sleep: Callable[[float], None] = time.sleep) -> Notion:
    """A connection with the token that the settings name."""
    if not settings.notion_token:
        raise Misconfigured(
            "Notion is not configured.",
            setting="notion.token",
            hint="Set notion.token to env:NAME or file:PATH, and notion.parent to a page id.",
        )
    if not settings.notion_parent:
        raise Misconfigured(
            "notion.parent is not set.",
            setting="notion.parent",
            hint="Set it to the id of the page that is to contain the databases.",
        )
    token = resolve(settings.notion_token, "notion.token")
    return Notion(settings.notion_url, token, sleep=sleep)


class Sync:
    """Updates Notion. Only the process that `LeaderElection` has elected may run it."""

    def __init__(
        self, core: Core, notion: Notion, check_leader: Callable[[], object] = lambda: None
    ) -> None:
        self.core = core
        self.notion = notion
        #: Called before each page, and before something is created: raises an error if another
        #: process leads now.
        self._check_leader = check_leader
        #: The table `notion_pages`, read once: only the leader writes it.
        self._pages: dict[str, Json] | None = None

    def run(self, max_batches: int = MAX_BATCHES) -> Synced:
        """Sync the changes since the last pass, then the system state."""
        if self._pages is None:
            with self.core.store.read() as view:
                self._pages = dict(view.rows("notion_pages"))
        done = self._retry_refused()._replace(complete=False)
        for _ in range(max_batches):
            done = done.plus(self._batch())
            if done.complete:
                break
        done = self._state().plus(done)
        self._note_time()
        return done

    # -- from the log ----------------------------------------------------------------------

    def _batch(self) -> Synced:
        with self.core.store.read() as view:
            cursor = view.rows("system_state").get(CURSOR) or 0
            batch = view.events(cursor, MAX_EVENTS)
            changed = list(_changed(view, batch))
        done = Synced()
        for table, ident, row in changed:
            done = done.plus(self._one(table, ident, row))
        if batch:
            self._save("system_state", {CURSOR: batch[-1].position})
        return done._replace(complete=len(batch) < MAX_EVENTS)

    def _retry_refused(self) -> Synced:
        """Retry some of the pages that Notion has refused; those refused again go to the end."""
        owed = [key.partition(":") for key, page in self._known.items() if page.get("owed")]
        some = owed[:MAX_RETRIED_PAGES]
        tasks, runs = (
            [ident for name, _, ident in some if name == table.name] for table in (TASKS, RUNS)
        )
        with self.core.store.read() as view:
            rows = list(_present(view, tasks, runs))
        done = Synced()
        for table, ident, row in rows:
            done = done.plus(self._one(table, ident, row))
        return done

    def _state(self) -> Synced:
        with self.core.store.read() as view:
            values = view.rows("system_state")
        done = Synced()
        for name in SHOWN:
            if name in values:
                done = done.plus(self._one(STATE, name, {"id": name, "value": values[name]}))
        return done

    def _note_time(self) -> None:
        with self.core.store.read() as view:
            now = views.utc(view.now())
        self._save("system_state", {LAST_SYNC: now})

    # -- one page --------------------------------------------------------------------------

    def _one(self, table: Table, ident: str, row: Row | None) -> Synced:
        """Create, update or trash one page. A refused page does not stop the others."""
        self._check_leader()
        key = f"{table.name}:{ident}"
        known = self._known.get(key)
        try:
            if row is None:
                return self._trash(key, known) if known is not None else Synced()
            return self._put(table, key, ident, row, known)
        except Rejected as error:
            if known is not None and known["page_id"] is not None and error.gone:
                # A person moved the page to the trash; it is not created again.
                self._remember(key, {**known, "gone": True})
                return Synced()
            if error.http_status == 404:
                self._forget_database(table)
            log.warning("notion: %s: %s", key, error)
            if table is not STATE:  # state values are compared in every pass
                self._mark_refused(key)
            return Synced(failed=1)

    def _put(self, table: Table, key: str, ident: str, row: Row, known: Json | None) -> Synced:
        properties = table.properties(row)
        now = digest(properties)
        if known is not None and (known.get("gone") or known.get("digest") == now):
            if known.get("owed"):
                self._remember(key, {**known, "owed": False})
            return Synced()
        source = self._source(table)
        if known is None:
            self._remember(key, {"page_id": None})
        page_id = known["page_id"] if known is not None else None
        if known is not None and page_id is None:
            page_id = next(
                (page["id"] for page in self.notion.query(source, found_by(ident))), None
            )
        if page_id is None:
            self._check_leader()
            made = self.notion.create_page(source, properties, content(table, row))
            self._remember(key, {"page_id": made["id"], "digest": now})
            return Synced(created=1)
        self.notion.update_page(page_id, {"properties": properties})
        self._remember(key, {"page_id": page_id, "digest": now})
        return Synced(updated=1)

    def _trash(self, key: str, known: Json) -> Synced:
        """Move the page of a deleted task or run to the trash."""
        table, _, ident = key.partition(":")
        page_id = known["page_id"]
        if page_id is None:
            found = self.notion.query(self._source(TABLES[table]), found_by(ident))
            page_id = next((page["id"] for page in found), None)
        if page_id is not None and not known.get("gone"):
            self.notion.update_page(page_id, {"in_trash": True})
        self._remember(key, None)
        return Synced(trashed=1)

    # -- databases -------------------------------------------------------------------------

    def _source(self, table: Table) -> str:
        """The data source for the pages of a table; its database is found by title, or created."""
        key = f"database:{table.name}"
        if key not in self._known:
            database = self._database(table)
            source = str(data_sources(database)[0]["id"])
            self._remember(key, {"database_id": database["id"], "source_id": source})
        return str(self._known[key]["source_id"])

    def _database(self, table: Table) -> Json:
        parent = self.core.settings.notion_parent
        for block in self.notion.children(parent):
            if block["type"] == "child_database" and _title(block) == table.title:
                return self.notion.database(block["id"])
        self._check_leader()
        return self.notion.create_database(parent, table.title, table.schema)

    def _forget_database(self, table: Table) -> None:
        """Forget an unreachable database: the next page searches for it again."""
        self._remember(f"database:{table.name}", None)

    # -- the table of pages ----------------------------------------------------------------

    @property
    def _known(self) -> dict[str, Json]:
        assert self._pages is not None
        return self._pages

    def _remember(self, key: str, page: Json | None) -> None:
        self._save("notion_pages", {key: page})
        if page is None:
            self._known.pop(key, None)
        else:
            self._known[key] = page

    def _mark_refused(self, key: str) -> None:
        """Mark a page as refused; a later pass retries it."""
        page = self._known.pop(key) if key in self._known else {"page_id": None}
        self._remember(key, {**page, "owed": True})

    def _save(self, table: str, rows: Mapping[str, Any]) -> None:
        self.core.engine.transaction(lambda tx: tx.put_rows(table, rows))


def _title(block: Json) -> str:
    return str(block["child_database"]["title"])


def _changed(
    view: ReadTransaction, batch: Sequence[LoggedEvent]
) -> Iterable[tuple[Table, str, Row | None]]:
    """The current rows of the tasks and runs of these events, each once; None if deleted."""
    return _present(view, _touched(batch, "task"), _touched(batch, "run"))


def _present(
    view: ReadTransaction, tasks: Sequence[str], runs: Sequence[str]
) -> Iterable[tuple[Table, str, Row | None]]:
    """The current rows of tasks and runs by their ids; None if deleted."""
    task_rows = _rows(view, "tasks", tasks)
    run_rows = _rows(view, "runs", runs)
    of_task = {
        job.id: job.task_id for job, _ in view.jobs({r["job_id"] for r in run_rows.values()})
    }
    for ident in tasks:
        yield TASKS, ident, task_rows.get(ident)
    for ident in runs:
        row = run_rows.get(ident)
        yield RUNS, ident, None if row is None else {**row, "task_id": of_task.get(row["job_id"])}


def _touched(batch: Sequence[LoggedEvent], level: str) -> list[str]:
    found = (each.subject or each.stream for each in batch if level_of(each.name) == level)
    return list(dict.fromkeys(found))


def _rows(view: ReadTransaction, table: str, ids: Sequence[str]) -> dict[str, Row]:
    if not ids:
        return {}
    return {row["id"]: row for row in view.page(Query(table, {"id": list(ids)}, limit=len(ids)))}


# ---- the service in the keeper's process -----------------------------------------------------


class NotionTracker:
    """The passes of the sync."""

    #: A page that is refused is retried; only the log names it.
    fault: DetentError | None = None

    def __init__(self, keeper: TrackerKeeper, notion: Notion) -> None:
        self._keeper, self._notion = keeper, notion
        #: Its cache of pages is not valid in another term of the leader.
        self._sync = Sync(keeper.core, notion, keeper.check_leader)

    def run(self, _now: int, /, *, fresh: bool) -> bool:
        if fresh:
            self._sync = Sync(self._keeper.core, self._notion, self._keeper.check_leader)
        return not self._sync.run().complete

    def close(self) -> None:
        self._notion.close()


def notion_keeper(core: Core, name: str, notion: Notion | None = None) -> TrackerKeeper:
    """Notion, synced at the interval of the settings."""

    def start(keeper: TrackerKeeper) -> NotionTracker:
        return NotionTracker(keeper, notion or connect(core.settings, keeper.sleep))

    interval_s = core.settings.notion_interval_ms / 1_000
    return TrackerKeeper(core, ROLE, name, start, pause_s=interval_s)
