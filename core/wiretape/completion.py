"""`wiretape completion`: the script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class

VARIABLE = "_WIRETAPE_COMPLETE"
"""The environment variable in which the script asks for completions; click derives its name from the program's."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell script that completes commands, options, choices and file names.

    \b
    Examples:
        wiretape completion bash > ~/.local/share/bash-completion/completions/wiretape
        wiretape completion zsh > ~/.zfunc/_wiretape
        wiretape completion fish > ~/.config/fish/completions/wiretape.fish
    """
    root = ctx.find_root().command
    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(root, {}, "wiretape", VARIABLE).source(), nl=False)
