"""The variants of the layout that the trial compares. Data only."""

from dataclasses import dataclass

from bench.commit_log.events import Kind

INTENTS = ("nothing", "other", "third")
KEY = "shared"
#: How many jobs with the concurrency key may run at the same time, in the variant with a limit.
MAX_RUNNING = 200
DELAY_US = 100_000
#: One job in this number is delayed.
DELAYED = 100


@dataclass(frozen=True)
class Variant:
    """One way to lay out commits and active jobs. The defaults are the proposal."""

    name: str
    entries: Kind = "templates"
    fillfactor: int = 50
    #: Whether the index of claimable jobs leaves claimed ones out.
    partial: bool = False
    #: text, jsonb or bytea on PostgreSQL; text or blob on SQLite.
    body: str = "text"
    #: Whether the database compresses long bodies.
    compressed: bool = True
    keep_payload: bool = True
    #: Whether a third of the jobs have a concurrency key with a limit.
    limit: bool = False
    bitmap_scans: str = "off"
    plans: str = "force_generic_plan"
    in_flight: int = 2
    #: SQLite only.
    without_rowid: bool = True

    def lane(self, intent: str) -> str:
        return f"{intent}/{KEY}" if self.limit and intent == INTENTS[-1] else intent

    @property
    def lanes(self) -> list[str]:
        return [self.lane(each) for each in INTENTS]


PROPOSAL = Variant("proposal")
POSTGRES = (
    PROPOSAL,
    Variant("entries grouped by stream", entries="grouped"),
    Variant("entries flat", entries="flat"),
    Variant("fillfactor 70", fillfactor=70),
    Variant("fillfactor 100", fillfactor=100),
    Variant("partial index", partial=True),
    Variant("grouped, jsonb", entries="grouped", body="jsonb"),
    Variant("grouped, bytea", entries="grouped", body="bytea"),
    Variant("grouped, not compressed", entries="grouped", compressed=False),
    Variant("not compressed", compressed=False),
    Variant("payload in the log only", keep_payload=False),
    Variant("limit on a third of the jobs", limit=True),
    Variant("one batch in flight", in_flight=1),
    Variant("custom plans", plans="force_custom_plan"),
    Variant("custom plans, bitmap scans", plans="force_custom_plan", bitmap_scans="on"),
)
SQLITE = (
    PROPOSAL,
    Variant("entries grouped by stream", entries="grouped"),
    Variant("entries flat", entries="flat"),
    Variant("blob", body="blob"),
    Variant("grouped, compressed blob", entries="grouped", body="zlib"),
    Variant("tables with rowid", without_rowid=False),
    Variant("partial index", partial=True),
    Variant("payload in the log only", keep_payload=False),
    Variant("limit on a third of the jobs", limit=True),
)
