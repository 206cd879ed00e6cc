"""`detent gc`: forget now what has had its time, instead of waiting for the keeper."""

import click

from detent.cli import output
from detent.settings import load

WORDS = {
    "work": "tasks and jobs alone",
    "keys": "expired idempotency keys",
    "outputs": "outputs of runs",
    "blobs": "blobs without evidence",
    "bytes": "bytes of those blobs",
    "directories": "directories of runs",
    "workspaces": "workspaces of tasks that are gone",
    "summaries": "summaries made up for",
}


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@output.json_option
def gc(dry_run: bool, as_json: bool) -> None:
    """Forget what has had its time: work, keys, output, blobs, and files of this machine.

    How long each is kept stands in the section `retention` of the settings. Directories are those
    of this machine; others sweep their own.
    """
    from detent.keeper.retention_sweep import run_all
    from detent.keeper.run_directories import Sweep
    from detent.operations.opener import open_core
    from detent.worker.workspaces import forget

    with open_core(load()) as core:
        gone = run_all(core, dry_run=dry_run)._asdict()
        swept = Sweep(core, forget, dry_run=dry_run).run()._asdict()
    found = {name: gone.get(name, 0) + swept.get(name, 0) for name in WORDS}
    if as_json:
        output.print_json({"dry_run": dry_run, **found})
        return
    head = "WOULD GO" if dry_run else "GONE"
    output.table((head, "WHAT"), [(str(found[name]), word) for name, word in WORDS.items()])
