"""`detent notion`: bring Notion up to date by hand."""

import time

import click

from detent.cli import output
from detent.errors import Refused
from detent.settings import load


@click.group(cls=output.Group)
def notion() -> None:
    """Show tasks, runs and system state in Notion."""


@notion.command()
@click.option("--once", is_flag=True, help="End when everything is up to date.")
@output.json_option
def sync(once: bool, as_json: bool) -> None:
    """Bring Notion up to date; a keeper does the same by itself when it is configured."""
    from detent.integrations.notion_sync import LeadershipLost, NotionKeeper, Sync, Synced, connect
    from detent.service import open_core, process_name

    loaded = load()
    with open_core(loaded) as core:
        keeper = NotionKeeper(core, process_name())
        running = Sync(core, connect(loaded.settings, keeper.sleep), keeper.check_leader)
        if keeper.election.acquire() is None:
            raise Refused("Another process is syncing.", hint="Wait for it, or stop it.")
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
    _say(done._asdict(), as_json)


def _say(done: dict[str, int], as_json: bool) -> None:
    if as_json:
        output.print_json(done)
    else:
        output.say(
            "{created} pages made, {updated} changed, {trashed} trashed, {failed} refused.".format(
                **done
            )
        )
