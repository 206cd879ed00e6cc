"""`detent notion sync`: copy tasks, runs and system state to Notion."""

import time

import click

from detent.cli import output
from detent.cli.target import load_local
from detent.errors import Refused


@click.group(cls=output.Group)
def notion() -> None:
    """Copy tasks, runs and system state to Notion."""


@notion.command()
@click.option("--once", is_flag=True, help="Exit when everything is up to date.")
@output.json_option
def sync(once: bool, as_json: bool) -> None:
    """Update Notion until Ctrl-C. A keeper does the same if Notion is configured."""
    from detent.integrations.leader_service import LeadershipLost
    from detent.integrations.notion.notion_sync import Sync, Synced, connect, notion_keeper
    from detent.service import open_core, process_name

    loaded = load_local()
    with open_core(loaded) as core:
        keeper = notion_keeper(core, process_name())
        running = Sync(core, connect(loaded.settings, keeper.sleep), keeper.check_leader)
        if keeper.election.acquire() is None:
            raise Refused(
                "Another process updates Notion already.",
                hint="Wait until it ends, or stop it. A running keeper is such a process.",
            )
        done = Synced()
        try:
            while True:
                done = done.plus(running.run())
                if once and done.complete:
                    break
                if done.complete:
                    time.sleep(loaded.settings.notion_interval_ms / 1_000)
        except (KeyboardInterrupt, LeadershipLost):
            pass
        finally:
            running.notion.close()
            keeper.election.resign()
    _print_counts(done._asdict(), as_json)


def _print_counts(done: dict[str, int], as_json: bool) -> None:
    if as_json:
        output.print_json(done)
    else:
        counted = f"{done['created']} pages created, {done['updated']} updated"
        output.print_text(f"{counted}, {done['trashed']} trashed, {done['failed']} failed.")
