"""Deliberately broken variants of the stores, by name: of SQLite, and of sets on PostgreSQL.

Each has the check of the conformance suite that must notice it, or `CLAIM_ORDER`. Those in
`OF_SETS` break what every store with sets uses.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from detent.engine import plain_jobs
from detent.engine.job_forms import Submitted
from detent.engine.known_limits import ClaimShares
from detent.engine.plain_jobs import SetPlan
from detent.engine.types import CommandRequest
from detent.kernel.commands import RecordCheckpoint
from detent.kernel.fair_shares import UNIT, Shares
from detent.store import commit_body
from detent.store.clock import HostClock
from detent.store.job_sets import JobSet, NewCheckpoint
from detent.store.logged_commit import LoggedCommit, RecentCommits
from detent.store.postgres import set_rows
from detent.store.postgres.connection import Query, named
from detent.store.postgres.reader import READY
from detent.store.postgres.writer import PostgresWriter
from detent.store.sqlite import leases
from detent.store.sqlite import set_rows as sqlite_set_rows
from detent.store.sqlite.commit_log import Appended, LogReader
from detent.store.sqlite.connection import Connection
from detent.store.sqlite.set_rows import SqliteJobSets
from detent.store.sqlite.work_rows import JobRows
from verification.mutant import Patches


def stale_version_is_appended() -> Patches:
    """Events are appended to a stream that was changed after it was loaded."""
    checked = JobRows._checked

    def unchecked(self: JobRows, stream: str) -> tuple[int, str, str, int | None]:
        return (*checked(self, stream)[:3], None)

    yield patch.object(JobRows, "_checked", unchecked)


def blanking_touches_a_neighbour() -> Patches:
    """The deletion of a job blanks the events of other jobs in the same commits."""
    blank = commit_body.blank

    def blank_all(text: str, at: int, streams: Collection[str]) -> str:  # noqa: ARG001
        return blank(text, at, set(commit_body.streams_of(text)))

    yield patch.object(commit_body, "blank", blank_all)


def late_commits_are_not_found() -> Patches:
    """A commit after the sixteenth version of a stream is not noted."""
    yield patch.object(Appended, "put_apart", lambda *_: None)


def deleted_ids_are_given_again() -> Patches:
    """No tombstone is written for a deleted stream."""
    many = Connection.many

    def forgetful(self: Connection, text: str, rows: Sequence[Sequence[Any]]) -> Any:
        return [] if "INTO tombstones" in text else many(self, text, rows)

    yield patch.object(Connection, "many", forgetful)


def heartbeat_renews_the_whole_lease() -> Patches:
    """A heartbeat also renews jobs that it does not name, if they were claimed together."""
    extend = leases.EXTEND.replace(" AND held = :held", " AND :held > 0")
    yield patch.object(leases, "EXTEND", extend)


def trim_divides_a_commit() -> Patches:
    """A chain block may end inside a commit, and the log is trimmed there."""
    yield patch.object(LogReader, "boundary", lambda _, upto: upto)


def memo_signature_lacks_the_priority() -> Patches:
    """Jobs of different priorities are decided together."""
    add = SetPlan._add

    def add_alike(self: SetPlan, signature: Any, *more: Any) -> None:
        alike = isinstance(signature, Submitted)
        add(self, signature._replace(priority="P2") if alike else signature, *more)

    yield patch.object(SetPlan, "_add", add_alike)


def refused_completion_is_in_the_body() -> Patches:
    """A set of completions is written without a check of fence and nonce."""
    yield patch.object(plain_jobs, "_is_held", lambda *_: True)


def checkpoint_set_ignores_the_fence() -> Patches:
    """A set of checkpoints is written without a check of the fences in the grants."""
    find = SetPlan._find_report

    def unchecked(self: SetPlan, place: int, request: CommandRequest) -> None:
        find(self, place, _with_the_first_fence(request))

    yield patch.object(SetPlan, "_find_report", unchecked)


def _with_the_first_fence(request: CommandRequest) -> CommandRequest:
    command = request.command
    if not isinstance(command, RecordCheckpoint):
        return request
    grant = command.grant._replace(fence=1)
    again = RecordCheckpoint(grant, command.name, command.value, command.step)
    return request._replace(command=again)


def checkpoint_set_ignores_the_nonce() -> Patches:
    """A set of checkpoints is written without a check of the nonces of the claims."""
    record = SqliteJobSets.record

    def unchecked(self: SqliteJobSets, checkpoints: Sequence[NewCheckpoint], _: Any) -> None:
        found: dict[str, str] = dict(self._connection.all("SELECT id, nonce FROM active_jobs"))
        record(self, checkpoints, [found[each.row[0]] for each in checkpoints])

    yield patch.object(SqliteJobSets, "record", unchecked)


def checkpoint_set_ignores_used_names() -> Patches:
    """A set of checkpoints replaces a checkpoint of the same name."""
    replaced = {
        size: text.replace("INSERT", "INSERT OR REPLACE")
        for size, text in sqlite_set_rows.NEW_CHECKPOINTS.items()
    }
    yield patch.object(sqlite_set_rows, "NEW_CHECKPOINTS", replaced)


def template_loses_values() -> Patches:
    """Every row of a template has the value of the first one."""
    with_rows = commit_body._with_rows

    def alike(text: str, rows: Sequence[str]) -> str:
        _, comma, value = rows[0].partition(",")
        if not comma:
            return with_rows(text, rows)
        return with_rows(text, [f"{row.partition(comma)[0]},{value}" for row in rows])

    yield patch.object(commit_body, "_with_rows", alike)


def blanking_touches_a_row_of_the_template() -> Patches:
    """The deletion of a job blanks the events of all jobs in the same template."""
    without = commit_body._without

    def all_rows(form: Any, rows: Sequence[Any], at: int, streams: Collection[str]) -> Any:
        own = {group.stream_of(row) for row in rows for group in form}
        return without(form, rows, at, own if own & {*streams} else streams)

    yield patch.object(commit_body, "_without", all_rows)


def recent_commits_skip_one() -> Patches:
    """A commit that is kept in memory lacks its last event."""
    commit = RecentCommits.commit

    def short(self: RecentCommits, first: int, *row: Any) -> LoggedCommit:
        known = {each for each, _ in self._kept}
        found = commit(self, first, *row)
        return LoggedCommit.of(found.events()[:-1]) if first in known else found

    yield patch.object(RecentCommits, "commit", short)


def recent_commits_are_never_read_again() -> Patches:
    """A commit is found in memory by its position, also after it was blanked."""
    commit = RecentCommits.commit

    def stale(self: RecentCommits, first: int, *row: Any) -> LoggedCommit:
        known = [each for (position, _), each in self._kept.items() if position == first]
        return known[0] if known else commit(self, first, *row)

    yield patch.object(RecentCommits, "commit", stale)


def kept_statements_have_the_first_times() -> Patches:
    """A set is written with the times of the first set of its signature."""
    make = sqlite_set_rows._new_rows

    def with_first_times(jobs: JobSet) -> Sequence[sqlite_set_rows.NewRow]:
        now = HostClock()()
        new = []
        for each in make(jobs):
            for index, offset in each.times:
                each.values[index] = now + offset
            new.append(each._replace(times=()))
        sqlite_set_rows.NEW_ROWS[jobs.template] = new
        return new

    yield patch.dict(sqlite_set_rows.NEW_ROWS, clear=True)
    yield patch.object(sqlite_set_rows, "_new_rows", with_first_times)


def sets_do_not_check_ids() -> Patches:
    """A set of new work is written although one of its ids is in use by ended work."""
    yield patch.object(sqlite_set_rows, "USED_IDS", "SELECT 1 FROM carray(?) WHERE 0")


def refused_completion_is_in_the_body_on_postgresql() -> Patches:
    """The statement for ends does not check the nonce of the claim."""
    end = set_rows._end_text

    def unchecked(*given: Any) -> Query:
        return named(end(*given).text.decode().replace(" AND was.nonce = was.of_claim", ""))

    yield patch.object(set_rows, "_end_text", unchecked)


def task_of_an_ended_job_is_not_compared() -> Patches:
    """The statement for ends does not check whether the tasks that stay active have changed."""
    end = set_rows._end_text
    check = " AND (SELECT count(id) = count(*) FROM own_tasks)"

    def unchecked(*given: Any) -> Query:
        return named(end(*given).text.decode().replace(check, ""))

    yield patch.object(set_rows, "_end_text", unchecked)


def checkpoint_set_ignores_the_nonce_on_postgresql() -> Patches:
    """The statement for checkpoints does not check the nonce of the claim."""
    record = READY["record_steps"]

    def unchecked(**values: Any) -> Query:
        query = record(**values)
        text = query.text.decode().replace("AND active_jobs.nonce = given.nonce", "")
        return named(text)._replace(values=query.values)

    yield patch.dict(READY, {"record_steps": unchecked})


def memo_signature_is_not_compared() -> Patches:
    """A claim takes the jobs of another project by the form of the last claim."""
    choose = READY["choose_plain"]

    def unchecked(**values: Any) -> Query:
        query = choose(**values)
        text = query.text.decode().replace(", 0) END AS place", ", 1) END AS place")
        return named(text)._replace(values=query.values)

    yield patch.dict(READY, {"choose_plain": unchecked})


def claim_allocates_its_commit_id_first() -> Patches:
    """The commit id of a claim is allocated before the jobs are locked."""
    finish = PostgresWriter.finish
    late, early = READY["allocate_chosen"]().text, READY["allocate_commit"]()

    def early_first(self: PostgresWriter, first: Any, last: Sequence[Query]) -> Any:
        if not any(each.text == late for each in last):
            return finish(self, first, last)
        kept = [each if each.text != late else Query(b"SELECT 1") for each in last]
        return finish(self, [early, *first], kept)

    yield patch.object(PostgresWriter, "finish", early_first)


def weights_of_projects_are_ignored() -> Patches:
    """Every project has the same share of the claims."""
    yield patch.object(Shares, "cost", lambda *_: UNIT)


def idle_projects_save_claims_up() -> Patches:
    """A project that had no work gets all the claims that it has missed."""
    yield patch.object(Shares, "start", lambda self, project: self.starts.get(project, 0))


def claims_of_projects_are_not_counted() -> Patches:
    """Each claim begins with the same virtual times."""
    yield patch.object(ClaimShares, "add", lambda *_: None)


#: A check on PostgreSQL: `claim_order.check_order`.
CLAIM_ORDER = "claim_order"
#: The check that notices each, of the mutants of the sets on PostgreSQL.
ON_POSTGRESQL: Mapping[Callable[[], Patches], str] = {
    refused_completion_is_in_the_body_on_postgresql: (
        "a_refused_completion_in_a_batch_writes_nothing"
    ),
    checkpoint_set_ignores_the_nonce_on_postgresql: (
        "a_refused_checkpoint_in_a_batch_writes_nothing"
    ),
    task_of_an_ended_job_is_not_compared: "tasks_of_a_batch_with_dependents_keep_their_versions",
    memo_signature_is_not_compared: "equal_jobs_of_two_projects_keep_theirs",
    claim_allocates_its_commit_id_first: CLAIM_ORDER,
}
#: The check that notices each.
NOTICED_BY: Mapping[Callable[[], Patches], str] = {
    stale_version_is_appended: "a_lost_version_race_is_refused",
    blanking_touches_a_neighbour: "a_neighbour_in_the_same_commits_keeps_its_data",
    late_commits_are_not_found: "a_long_stream_is_read_in_pages",
    deleted_ids_are_given_again: "the_id_of_deleted_work_is_not_given_again",
    heartbeat_renews_the_whole_lease: "a_job_that_is_not_renewed_is_lost_alone",
    trim_divides_a_commit: "a_trim_divides_no_commit",
    memo_signature_lacks_the_priority: "equal_jobs_in_a_batch_keep_what_differs",
    refused_completion_is_in_the_body: "a_refused_completion_in_a_batch_writes_nothing",
    checkpoint_set_ignores_the_fence: "a_refused_checkpoint_in_a_batch_writes_nothing",
    checkpoint_set_ignores_the_nonce: "a_refused_checkpoint_in_a_batch_writes_nothing",
    checkpoint_set_ignores_used_names: "a_used_name_in_a_batch_of_checkpoints_is_refused_alone",
    template_loses_values: "jobs_of_a_batch_have_the_log_of_a_single_job",
    blanking_touches_a_row_of_the_template: "a_task_of_a_batch_is_deleted_alone",
    recent_commits_skip_one: "a_process_reads_the_log_as_a_new_one_does",
    recent_commits_are_never_read_again: "a_process_reads_the_log_as_a_new_one_does",
    kept_statements_have_the_first_times: "equal_jobs_that_are_submitted_alone_keep_what_differs",
    weights_of_projects_are_ignored: "projects_share_claims_by_weight",
    idle_projects_save_claims_up: "a_project_without_work_saves_nothing_up",
    claims_of_projects_are_not_counted: "a_project_does_not_wait_for_all_jobs_of_another",
    sets_do_not_check_ids: "the_id_of_a_job_that_was_submitted_alone_is_not_given_again",
    **ON_POSTGRESQL,
}
MUTANTS: Mapping[str, Callable[[], Patches]] = {
    each.__name__.replace("_", "-"): each for each in NOTICED_BY
}
#: Mutants of what the engine does with sets, whatever the store is.
OF_SETS = ("memo-signature-lacks-the-priority", "checkpoint-set-ignores-the-fence")
