"""The rows of the table `graph_checkpoints`: the checkpoints of LangGraph threads.

| name | value |
|---|---|
| `t/THREAD` | the job that the thread belongs to, if there is one |
| `c/THREAD/NAMESPACE/CHECKPOINT` | a checkpoint without the values of its channels |
| `v/THREAD/NAMESPACE/CHANNEL/VERSION/` | the value of a channel, once for each version |
| `w/THREAD/NAMESPACE/CHECKPOINT/TASK/INDEX` | what a task of the graph has written |

They are not part of the log. A thread of a job is deleted with the job, others by their users.
"""

from functools import partial
from urllib.parse import quote

from detent.operations.context import Core
from detent.store.port import WriteTransaction

TABLE = "graph_checkpoints"
THREAD, CHECKPOINT, VALUE, WRITE = "t", "c", "v", "w"
DATA = (CHECKPOINT, VALUE, WRITE)
#: The maximum number of threads that one pass of the retention deletes.
MAX_THREADS = 100


def row_name(*parts: str) -> str:
    """The name of a row; characters that have a meaning in names are escaped in its parts."""
    return "/".join(quote(part, safe="") for part in parts)


def prefix(*parts: str) -> str:
    """The prefix of the names of all rows below these parts."""
    return row_name(*parts) + "/"


def thread_name(job_id: str, number: int) -> str:
    """The thread of one of the graphs that a job runs: `JOB`, then `JOB/2` and so on."""
    return job_id if number == 1 else f"{job_id}/{number}"


def is_thread_of(job_id: str, thread: str) -> bool:
    """Whether the thread belongs to the job."""
    return thread.partition("/")[0] == job_id


def delete_thread(thread: str, tx: WriteTransaction) -> None:
    """Delete everything of a thread."""
    for kind in DATA:
        tx.put_rows(TABLE, dict.fromkeys(tx.rows_under(TABLE, prefix(kind, thread))))
    tx.put_rows(TABLE, {row_name(THREAD, thread): None})


def delete_threads_of_deleted_jobs(core: Core) -> int:
    """Delete threads whose job was deleted; returns their number."""
    with core.store.read() as view:
        threads = view.rows_under(TABLE, f"{THREAD}/").values()
        owned = {row["thread"]: row["job"] for row in threads if row["job"] is not None}
        jobs = {job.id for job, _ in view.jobs(set(owned.values()))} if owned else set()
    gone = [thread for thread, job in owned.items() if job not in jobs][:MAX_THREADS]
    for thread in gone:
        core.engine.transaction(partial(delete_thread, thread))
    return len(gone)
