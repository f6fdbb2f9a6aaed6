"""The commands on README.md and the pages: those that read recordings are run, the options of all others are parsed.

Pages have tests of their own for what an example says; here, it is a command that there is, with options that
there are, and on a recording such as the page speaks of it ends as it should.
"""

import json
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from wiretape.cli import subcommand, wiretape
from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guides").glob("*.md"))]
SERVING = {"proxy", "replay", "serve", "control", "demo", "debug", "probe"}
"""Commands that run until they are stopped, need a running server, or take long: only their options are parsed."""
COMMAND = re.compile(r"^(?:\$ )?wiretape (?=[a-z-]+\b)")
BASE = "run.db"
_S = 1_000_000_000


def commands(page: Path) -> list[list[str]]:
    """The arguments of each `wiretape` command in the shell blocks of a page."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = "".join(text for kind, text in fenced if kind in {"sh", "console"}).replace("\\\n", " ").splitlines()
    found = [COMMAND.sub("", line) for line in lines if COMMAND.match(line)]
    return [shlex.split(re.split(r" [|&>]", line)[0], comments=True) for line in found]


SHOWN = {page.relative_to(ROOT).as_posix(): commands(page) for page in PAGES}


def event(exchange: int, sequence: int) -> bytes:
    said = {"id": f"evt_{exchange}_{sequence}", "sequence": sequence, "type": "run.started", "session_id": "ses_1"}
    return f"event: run.started\nid: {said['id']}\ndata: {json.dumps(said)}\n\n".encode()


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A recording with findings and a session `ses_1`, in several formats, under the names that the pages use."""
    folder = tmp_path_factory.mktemp("recorded")
    writer = Writer.create(folder / BASE, upstream="http://service.test")
    for number in range(1, 7):
        at, body = number * 20 * _S, event(number, 2) + event(number, 1)
        target = "/v1/sessions/ses_1/events/stream"
        headers = (("Content-Type", "text/event-stream"),)
        writer.feed(
            [
                RequestStarted(number, at, "127.0.0.1", "GET", "http", "service.test", target, "HTTP/1.1", ()),
                RequestEnded(number, at + 1),
                ResponseStarted(number, at + 2, 200, "OK", "HTTP/1.1", headers),
                BytesArrived(number, Side.RESPONSE, 0, body, (len(body),), (at + 3,)),
                ExchangeEnded(number, at + 4, Ending.COMPLETE),
            ]
        )
    writer.close(200 * _S)
    (folder / "stream.sse").write_bytes(event(1, 1))
    for name, form in (("devtools.har", "har"), ("run.tape", "tape")):
        run(["export", str(folder / BASE), "--format", form, "--output", str(folder / name)])
    return folder


def run(arguments):
    result = CliRunner().invoke(wiretape, arguments)
    assert result.exit_code in {0, 1}, f"wiretape {shlex.join(arguments)}\n{result.output}"
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


def read(arguments):
    """Parse the options of a command or subcommand."""
    name, *rest = arguments
    command = subcommand(name)
    with command.make_context(name, list(rest)) as ctx:
        if isinstance(command, click.Group):
            inner, one, rest = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
            one.make_context(inner, rest, parent=ctx, obj=SimpleNamespace()).close()


def prepare(arguments, recordings):
    """Create the files that a command reads, and remove those that it writes."""
    for before, name in pairwise(arguments):
        path = Path(name)
        if before in {"-o", "--output", "--write-baseline"}:
            path.unlink(missing_ok=True)
        elif path.suffix == ".db" or name in {"A", "B"}:
            shutil.copy(recordings / BASE, path)
        elif (recordings / name).is_file():
            shutil.copy(recordings / name, path)


@pytest.mark.parametrize("page", [page for page, shown in SHOWN.items() if shown])
def test_the_commands_on_a_page_run(page, recordings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in SHOWN[page]:
        assert arguments[0] in wiretape.commands, f"{page} shows wiretape {arguments[0]}, and there is no such command"
        # Nothing receives spans.  What mitmproxy wrote takes mitmproxy to make; tests/formats has such files.
        if arguments[0] in SERVING or "--endpoint" in arguments or any(name.endswith(".mitm") for name in arguments):
            try:
                read(arguments)
            except click.UsageError as error:
                pytest.fail(f"{page} shows wiretape {shlex.join(arguments)}: {error.format_message()}")
        else:
            prepare(arguments, recordings)
            run(arguments)


def test_pages_show_commands():
    assert sum(map(len, SHOWN.values())) > 40
