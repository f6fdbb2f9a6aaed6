"""Write docs/cli.md and the manual page docs/wiretape.1: every command and option with its help text.

python .ci/cli_page.py docs/cli.md
"""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from wiretape import __version__
from wiretape.cli import subcommand, wiretape

HEAD = """# The command line

Every command and every option, generated from the code by `make docs-cli`.
[The pages about the commands](README.md#commands) explain their purpose.
`--help` (`-h`) and `wiretape help COMMAND` print the same text.
"""
_HELP = "help"
_MARKS = re.compile(r"([\\*_<\[])")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command and subcommand with its full name."""
    for name in wiretape.commands:
        command = subcommand(name)
        yield f"wiretape {name}", command
        if isinstance(command, click.Group):
            for inner, one in command.commands.items():
                yield f"wiretape {name} {inner}", one


def options(command: click.Command) -> list[click.Option]:
    """Return the options of a command, except --help."""
    ours = [one for one in command.params if isinstance(one, click.Option)]
    return [one for one in ours if one.name != _HELP and not one.hidden]


def page() -> str:
    """Return the text of docs/cli.md."""
    lines = [HEAD, "| Command | What it does |", "|---|---|"]
    for typed, command in commands():
        lines.append(f"| [`{typed}`](#{typed.replace(' ', '-')}) | {_cell(command.get_short_help_str(200))} |")
    for typed, command in commands():
        lines += ["", *_section(typed, command)]
    return "\n".join(lines) + "\n"


def _section(typed: str, command: click.Command) -> Iterator[str]:
    ctx = _context(command, typed)
    yield f"{'#' * len(typed.split())} {typed}"
    yield from ["", "```text", " ".join([_called(typed), *command.collect_usage_pieces(ctx)]), "```"]
    for paragraph in _paragraphs(command.help):
        yield from ["", *_paragraph(paragraph)]
    rows = [record for option in options(command) if (record := option.get_help_record(ctx)) is not None]
    if rows:
        yield from ["", "| Option | |", "|---|---|"]
        yield from (f"| {_code(names)} | {_cell(said)} |" for names, said in rows)
    for paragraph in _paragraphs(command.epilog):
        yield from ["", *_paragraph(paragraph)]


def _context(command: click.Command, typed: str | None = None) -> click.Context:
    """Return a context with the settings of the program: a command keeps the names of its option `--help`."""
    return click.Context(command, info_name=typed, **wiretape.context_settings)


def _called(typed: str) -> str:
    """Return the usage line of a command; the arguments of a group precede its subcommand."""
    program, name, *inner = typed.split()
    group = subcommand(name)
    ours = [one for one in group.params if inner and isinstance(one, click.Argument)]
    return " ".join([program, name, *(one.make_metavar(_context(group, name)) for one in ours), *inner])


def _paragraphs(text: str | None) -> list[str]:
    return inspect.cleandoc(text).split("\n\n") if text else []


def _paragraph(text: str) -> list[str]:
    """Return a paragraph unchanged if click is told to leave it alone (by a backspace), otherwise as prose."""
    if text.startswith("\b"):
        return ["```text", *text.removeprefix("\b").strip("\n").splitlines(), "```"]
    return [_prose(text)]


def _prose(text: str) -> str:
    """Return one line with Markdown escaped, except code spans."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if number % 2 else _MARKS.sub(r"\\\1", part) for number, part in enumerate(parts))


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{' '.join(text.split())}`".replace("|", "\\|")


def manual() -> str:
    """Return the text of docs/wiretape.1, in roff."""
    about = inspect.cleandoc(wiretape.help or "")
    lines = [
        f'.TH WIRETAPE 1 "" "wiretape {__version__}"',
        *(".SH NAME", f"wiretape \\- {_roff(about.rstrip('.'))}"),
        *(".SH SYNOPSIS", ".B wiretape", "[OPTIONS] COMMAND [ARGS]..."),
        *(".SH OPTIONS", *_option_lines(wiretape)),
        ".SH COMMANDS",
    ]
    for typed, command in commands():
        ctx = _context(command, typed)
        lines += [
            f'.SS "{_roff(typed)}"',
            ".nf",
            _roff(" ".join([_called(typed), *command.collect_usage_pieces(ctx)])),
            ".fi",
        ]
        for paragraph in [*_paragraphs(command.help), *_paragraphs(command.epilog)]:
            text = paragraph.removeprefix("\b").strip("\n")
            is_plain = paragraph.startswith("\b")
            lines += [".PP", *([".nf", _roff(text), ".fi"] if is_plain else [_roff(" ".join(text.split()))])]
        lines += _option_lines(command)
    lines += [".SH EXIT STATUS", _roff((wiretape.epilog or "").partition("Exit status: ")[2])]
    return "\n".join(lines) + "\n"


def _option_lines(command: click.Command) -> Iterator[str]:
    ctx = _context(command)
    for option in options(command):
        names, text = option.get_help_record(ctx) or ("", "")
        yield from (".TP", f".B {_roff(names)}", _roff(" ".join(text.split())))


def _roff(text: str) -> str:
    """Escape text, whose lines must not begin with a control character."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return "\n".join(f"\\&{line}" if line[:1] in {".", "'"} else line for line in escaped.split("\n"))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(page(), "utf-8")
    target.with_name("wiretape.1").write_text(manual(), "utf-8")
