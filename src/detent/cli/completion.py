"""`detent completion`: scripts that complete commands and options in a shell."""

import click
from click.shell_completion import get_completion_class

from detent.cli import output

HINTS = {
    "bash": 'eval "$(detent completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(detent completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "detent completion fish | source   # in ~/.config/fish/config.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(HINTS)))
@output.json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print a completion script for bash, zsh or fish.

    To install it, add a line to the start-up file of the shell. For bash and zsh:
    `eval "$(detent completion bash)"`; for fish: `detent completion fish | source`.
    """
    found = get_completion_class(shell)
    assert found is not None, "the choices above are those that click knows"
    root = ctx.find_root().command
    script = found(root, {}, "detent", "_DETENT_COMPLETE").source()
    if shell == "fish":  # a description may contain commas: split at the first one only
        script = script.replace('string split ","', 'string split --max 1 ","')
    if as_json:
        output.print_json({"shell": shell, "script": script, "install": HINTS[shell]})
    else:
        click.echo(script)
