"""The command `wiretape control`, and the HTTP client of the control API that it uses."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import click
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from wiretape.addresses import origin_of
from wiretape.control_protocol import (
    CONTROL_ROOT,
    DEFAULT_WAIT_S,
    LONGEST_WAIT_S,
    MOST_STEPS,
    TOKEN_HEADER,
    replay_url_error,
)
from wiretape.errors import InputError
from wiretape.labels import count_of
from wiretape.safe_text import shorten
from wiretape.side_command import TOKEN_VARIABLE
from wiretape_replay.control.control_requests import WaitCondition, check_token
from wiretape_replay.control.playhead_control import not_reached_message
from wiretape_replay.session.playhead import StepTarget

_TIMEOUT_S = 20.0
_LONGEST_BODY = 16 * 1024 * 1024


def _parse_replay_url(url: str) -> tuple[str, int]:
    """The host and the port of the replay at a URL.  Raises InputError."""
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError:
        raise replay_url_error(url) from None
    if parts.scheme != "http" or not parts.hostname or parts.path not in {"", "/"} or parts.query:
        raise replay_url_error(url)
    return parts.hostname, port


def _request(
    url: str, method: str, operation: str, parameters: Mapping[str, object], *, token: str, takes_s: float
) -> dict[str, Any]:
    """Do an operation, which may take `takes_s` seconds, and return the document of the response.

    The request goes to the replay directly, and redirections are not followed: a proxy or another server would see the
    token.  Parameters that are None are left out.  Raises InputError.
    """
    host, port = _parse_replay_url(url)
    parameters = {name: value for name, value in parameters.items() if value is not None}
    options: dict[str, Any] = {"json": parameters}
    if method == "GET":
        options = {"params": {name: str(value) for name, value in parameters.items()}}
    options["headers"] = {TOKEN_HEADER: token, "Accept-Encoding": "identity"}

    async def send() -> tuple[int, bytes]:
        async with (
            ClientSession(origin_of(host, port), timeout=ClientTimeout(_TIMEOUT_S + takes_s)) as session,
            session.request(method, CONTROL_ROOT + operation, allow_redirects=False, **options) as response,
        ):
            return response.status, await _read_body(response)

    address = shorten(f"{host}:{port}")
    try:
        return _read_document(*asyncio.run(send()))
    except TimeoutError:
        raise InputError(f"The replay at {address} does not respond.") from None
    except OSError as error:
        reason = error.strerror or str(error) or "the connection was closed"
        raise InputError(f"Cannot reach the replay at {address}: {reason}.") from None
    except (ClientError, ValueError):
        raise InputError(f"The server at {address} is not a wiretape replay.") from None


async def _read_body(response: ClientResponse) -> bytes:
    """Return the body of a response.  Raises ValueError if it is larger than any of a replay."""
    try:
        await response.content.readexactly(_LONGEST_BODY + 1)
    except asyncio.IncompleteReadError as ended:
        return ended.partial
    raise ValueError(response)


def _read_document(status: int, body: bytes) -> dict[str, Any]:
    """The document of a response.  Raises InputError for an error of the replay, ValueError for other servers."""
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(document)  # noqa: TRY004 - JSON, but not of a replay
    if status == HTTPStatus.OK:
        return document
    error = document.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        raise ValueError(document)  # noqa: TRY004 - as above
    raise InputError(shorten(error["message"], 600))


_Document = Mapping[str, Any]


class _Target:
    """The replay to control, and the options that all subcommands share."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.token: str | None = None
        self.session: str | None = None
        self.as_json = False

    def send(
        self,
        operation: str,
        parameters: Mapping[str, object] | None = None,
        *,
        method: str = "POST",
        takes_s: float = 0,
    ) -> _Document:
        """Do an operation and print the resulting state."""
        if self.token is None:
            raise InputError(f"The control token is missing: use --token or set {TOKEN_VARIABLE}.")
        parameters = {"session": self.session, **(parameters or {})}
        document = _request(self.url, method, operation, parameters, token=check_token(self.token), takes_s=takes_s)
        click.echo(json.dumps(document, indent=2) if self.as_json else "\n".join(_format_response(document)))
        return document


class _OrderedGroup(click.Group):
    """A group whose help lists the subcommands in the order of their definition, with their whole sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature of click
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in self.commands.items()])


@click.group(
    cls=_OrderedGroup, epilog="Example: wiretape control http://127.0.0.1:8090 step durable --count 3 --token 2f…"
)
@click.argument("url")
@click.pass_context
def control(ctx: click.Context, *, url: str) -> None:
    """Move and inspect the playheads of a `wiretape replay` or `wiretape serve` process at URL.

    Every command prints the resulting state.
    """
    ctx.obj = _Target(url)


def _store_option(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    setattr(ctx.obj, parameter.name or "", value)


def _subcommand(function: Callable[..., None]) -> click.Command:
    """A command of the group, with the options that all of them share."""
    shared_option = partial(click.option, expose_value=False, callback=_store_option)
    options = [
        shared_option(
            "--token",
            envvar=TOKEN_VARIABLE,
            metavar="TOKEN",
            help=f"Control token, as printed by `wiretape replay` or `wiretape serve`; or set ${TOKEN_VARIABLE}.",
        ),
        shared_option(
            "--session",
            metavar="ID",
            help="Session to control.  [default: all sessions; required for step, seek and wait if there are several]",
        ),
        shared_option("--json", "as_json", is_flag=True, help="Print the response as one JSON document."),
    ]
    for option in reversed(options):
        function = option(function)
    return control.command(name=function.__name__.rstrip("_"))(click.pass_obj(function))


@_subcommand
def state(target: _Target) -> None:
    """Show where the playheads are, what is ahead, and who is connected."""
    target.send("state", method="GET")


@_subcommand
def pause(target: _Target) -> None:
    """Stop at the current position."""
    target.send("pause")


@_subcommand
def resume(target: _Target) -> None:
    """Continue from the current position, even if a breakpoint stopped the playhead there."""
    target.send("resume")


@_subcommand
@click.argument("to", type=click.Choice([target.value for target in StepTarget]), default="event")
@click.option(
    "--count", metavar="N", type=click.IntRange(1, MOST_STEPS), default=1, show_default=True, help="Number of steps."
)
def step(target: _Target, to: str, count: int) -> None:
    """Pause, then advance past the next event, durable event, or event with a finding."""
    target.send("step", {"to": to, "count": count})


@_subcommand
@click.option("--sequence", metavar="N", type=int, help="Go to just after the event with this sequence number.")
@click.option("--event", metavar="ID", help="Go to just after the durable event with this id.")
@click.option("--time", "time_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Go to a time in the log.")
@click.option(
    "--position", metavar="N", type=click.IntRange(min=0), help="Go to a position in the log, counted from 0."
)
@click.option("--end", is_flag=True, help="Go to the end of the log.")
def seek(target: _Target, /, **destination: object) -> None:
    """Go to a position in the log, forward or back."""
    target.send("seek", {name: value for name, value in destination.items() if value is not False})


@_subcommand
@click.option("--type", "type_", metavar="TYPE", help="Stop before events of this type; * matches anything.")
@click.option("--sequence", metavar="N", type=int, help="Stop before the event with this sequence number.")
@click.option("--tool-call", "tool_call_id", metavar="ID", help="Stop before events of this tool call.")
@click.option("--finding", metavar="CODE", help="Stop before events with this finding; a code prefix is enough.")
@click.option("--remove", is_flag=True, help="Remove the breakpoint with these conditions instead of setting it.")
@click.option("--clear", is_flag=True, help="Remove all breakpoints.")
@click.option("--list", "lists", is_flag=True, help="List the breakpoints without changing them.")
def break_(target: _Target, /, *, type_: str | None, remove: bool, clear: bool, lists: bool, **others: object) -> None:
    """Stop before every event that matches all the given conditions."""
    conditions = {"type": type_, **others}
    is_empty = all(value is None for value in conditions.values())
    if clear + lists + (not is_empty) != 1 or (remove and is_empty):
        raise InputError(
            "Specify the conditions of a breakpoint (--type, --sequence, --tool-call, --finding), --clear or --list."
        )
    if lists:
        target.send("state", method="GET")
    else:
        target.send("breakpoints", conditions, method="DELETE" if remove or clear else "POST")


@_subcommand
def reset(target: _Target) -> None:
    """Start over: return playheads and responses to the beginning, reset faults, and close connected streams."""
    target.send("reset")


@_subcommand
@click.argument(
    "until", type=click.Choice([until.value for until in WaitCondition]), default=WaitCondition.STOPPED.value
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, LONGEST_WAIT_S),
    default=DEFAULT_WAIT_S,
    show_default=True,
    metavar="SECONDS",
    help="Fail after this many seconds.",
)
def wait(target: _Target, until: str, timeout_s: float) -> None:
    """Wait until the playhead stops, reaches a breakpoint or reaches the end, or until a stream connects."""
    document = target.send("wait", {"until": until, "timeout_s": timeout_s}, takes_s=timeout_s)
    if not document["reached"]:
        raise InputError(not_reached_message(document["sessions"][0]["session"], WaitCondition(until), timeout_s))


# The state of a replay as lines; text of the recording is made printable.

_STATUS = {
    "waiting": "waiting for its first stream",
    "moving": "moving",
    "paused": "paused",
    "breakpoint": "stopped at a breakpoint",
    "end": "at the end",
}
_ENTRY_FIELDS = {"sequence": "sequence", "id": "id", "tool_call_id": "tool call", "source": "recorded at"}
_CONDITIONS = {"type": "type", "sequence": "sequence", "tool_call_id": "tool call", "finding": "finding"}


def _format_response(document: _Document) -> Iterator[str]:
    if document.get("stepped") is not None:
        yield f"passed: {_format_entry(document['stepped'])}"
    elif "found" in document:
        yield f"reached the end of the log after {count_of(document['found'], 'step')}"
    for session in document["sessions"]:
        yield from _format_session(session)
    requests = document["requests"]
    is_replay = requests["recorded"] is not None
    if not document["sessions"]:
        yield f"no playhead: {'verbatim mode, or no recorded streams' if is_replay else 'no session yet'}"
    refused = f" and {requests['refused']} refused" if requests["refused"] else ""
    others = f", {count_of(requests['recorded'], 'other request')}" if is_replay else ""
    yield f"served: {count_of(requests['streams'], 'stream')}{refused}{others}"
    for miss in requests["misses"]:
        yield f"no match: {shorten(miss['method'])} {shorten(miss['path'])}: {shorten(miss['message'], 600)}"


def _format_session(session: _Document) -> Iterator[str]:
    position = f"{session['position']} of {session['length']}, {session['time_ms'] / 1000:.3f} s"
    yield f"{shorten(session['session'])}: {_STATUS.get(session['status'], session['status'])}, at {position}"
    if session["next"] is not None:
        yield f"  next: {_format_entry(session['next'])}"
    for point in session["breakpoints"]:
        yield f"  breakpoint: {_format_breakpoint(point)}" + ("  (here)" if point == session["stopped_by"] else "")
    for stream in session["streams"]:
        start = f"after {shorten(stream['cursor'])}" if stream["cursor"] else "from the beginning"
        yield f"  stream: {start}, {'with' if stream['deltas'] else 'without'} deltas, at {stream['position']}"


def _format_entry(entry: _Document) -> str:
    """An entry of the log: `tool.started, sequence 3, id e3, tool call t1, recorded at 2:3`."""
    name = entry["type"] or ("ending " + entry["ending"] if entry["ending"] else entry["kind"])
    parts = [name, *(f"{label} {entry[key]}" for key, label in _ENTRY_FIELDS.items() if entry[key] is not None)]
    return shorten(", ".join([*parts, *_format_findings(entry["findings"])]), 400)


def _format_breakpoint(point: _Document) -> str:
    """The conditions of a breakpoint: `type tool.*, tool call t1`."""
    parts = [f"{label} {point[key] or '(any)'}" for key, label in _CONDITIONS.items() if point[key] is not None]
    return shorten(", ".join(parts), 400)


def _format_findings(codes: Sequence[str]) -> list[str]:
    return [f"findings {' '.join(codes)}"] if codes else []
