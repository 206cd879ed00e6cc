"""`detent gc`: delete expired data now, instead of waiting for the keeper."""

import click

from detent.cli import output
from detent.cli.target import load_local

LABELS = {
    "work": "tasks, and jobs without a task",
    "keys": "expired idempotency keys",
    "outputs": "output of runs",
    "blobs": "blobs that no evidence refers to",
    "bytes": "bytes of these blobs",
    "directories": "directories of runs",
    "workspaces": "workspaces of deleted tasks",
    "summaries": "missing summary.json files written",
}


@click.command()
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
@output.json_option
def gc(dry_run: bool, as_json: bool) -> None:
    """Delete expired data: work, idempotency keys, output, blobs and local files.

    The settings in the section `retention` say how long each kind of data is kept. Only the run
    directories of this machine are deleted; each machine deletes its own.
    """
    from detent.keeper.retention_sweep import run_all
    from detent.keeper.run_directories import Sweep
    from detent.operations.opener import open_core
    from detent.worker.workspaces import forget

    with open_core(load_local()) as core:
        gone = run_all(core, dry_run=dry_run)._asdict()
        swept = Sweep(core, forget, dry_run=dry_run).run()._asdict()
    found = {name: gone.get(name, 0) + swept.get(name, 0) for name in LABELS}
    if as_json:
        output.print_json({"dry_run": dry_run, **found})
        return
    head = "TO DELETE" if dry_run else "DELETED"
    output.print_table((head, "KIND"), [(str(found[name]), word) for name, word in LABELS.items()])
