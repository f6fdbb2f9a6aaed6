"""The command `wiretape control`, and the HTTP client of the control API that it uses."""

import asyncio
import inspect
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, get_args, get_origin

import click
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from wiretape.addresses import origin_of
from wiretape.control_protocol import (
    CONTROL_ROOT,
    TOKEN_HEADER,
    check_token,
    parse_replay_url,
)
from wiretape.errors import InputError
from wiretape.labels import count_of
from wiretape.network_errors import describe_connection_error
from wiretape.safe_text import shorten
from wiretape.wiretape_subprocess import TOKEN_VARIABLE
from wiretape_replay.control.control_operations import OPERATIONS, Operation, option_of
from wiretape_replay.control.playhead_control import WaitCondition, not_reached_message

_TIMEOUT_S = 20.0
_LONGEST_BODY = 16 * 1024 * 1024
_Document = Mapping[str, Any]
_BREAKPOINTS = "breakpoints"
"""The operation of `wiretape control URL break`."""


def _request(
    url: str, method: str, operation: str, parameters: Mapping[str, object], *, token: str, takes_s: float
) -> dict[str, Any]:
    """Do an operation, which may take `takes_s` seconds, and return the document of the response.

    The request goes to the replay directly, and redirections are not followed: a proxy or another server would see the
    token.  Parameters that are None are left out.  Raises InputError.
    """
    host, port = parse_replay_url(url)
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
        raise InputError(f"Cannot reach the replay at {address}: {describe_connection_error(error)}.") from None
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


class _OrderedGroup(click.Group):
    """A group whose help lists the subcommands in the order of their definition, with their whole sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature of click
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in self.commands.items()])


@click.group(
    cls=_OrderedGroup,
    epilog="\b\nExample:\n    wiretape control http://127.0.0.1:8090 step durable --count 3 --token 2f…",
)
@click.argument("url")
@click.pass_context
def control(ctx: click.Context, *, url: str) -> None:
    """Move and inspect the playheads of a `wiretape replay` or `wiretape serve` process at URL, and hold responses.

    Every command prints the resulting state.
    """
    ctx.obj = url


_SHARED_OPTIONS = [
    click.Option(
        ["--token"],
        envvar=TOKEN_VARIABLE,
        metavar="TOKEN",
        help=f"Control token, as printed by `wiretape replay` or `wiretape serve`; or set ${TOKEN_VARIABLE}.",
    ),
    click.Option(
        ["--channel"],
        metavar="ID",
        help="Channel to control.  [default: all channels; required for step, seek and wait if there are several]",
    ),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the response as one JSON document."),
]
_BREAK_OPTIONS = [
    click.Option(["--remove"], is_flag=True, help="Remove the breakpoint with these conditions instead of setting it."),
    click.Option(["--clear"], is_flag=True, help="Remove all breakpoints."),
    click.Option(["--list", "lists"], is_flag=True, help="List the breakpoints without changing them."),
]


def _add_command(name: str, method: str, operation: Operation) -> None:
    """Add the command of an operation to the group."""

    @click.pass_obj
    def run(url: str, /, *, token: str | None, channel: str | None, as_json: bool, **parameters: Any) -> None:
        """Do the operation, and print the resulting state."""
        if token is None:
            raise InputError(f"The control token is missing: use --token or set {TOKEN_VARIABLE}.")
        chosen, path = (method, name) if name != _BREAKPOINTS else _choose_method(parameters)
        parameters = {key: value for key, value in parameters.items() if value is not None and value is not False}
        takes_s = float(parameters.get("timeout_s", 0))
        if channel is not None:
            parameters["channel"] = channel
        OPERATIONS[path][chosen].check(parameters)
        document = _request(url, chosen, path, parameters, token=check_token(token), takes_s=takes_s)
        click.echo(json.dumps(document, indent=2) if as_json else "\n".join(_format_response(document)))
        if document.get("reached") is False:
            until = WaitCondition(parameters["until"])
            waited = next((each["channel"] for each in document["channels"]), "")
            raise InputError(not_reached_message(waited, until, takes_s))

    options = [_parameter(key, *declared) for key, declared in operation.parameters.items()]
    options += [*(_BREAK_OPTIONS if name == _BREAKPOINTS else []), *_SHARED_OPTIONS]
    command = "break" if name == _BREAKPOINTS else name
    control.add_command(click.Command(command, callback=run, params=options, help=operation.help))


def _parameter(name: str, hint: Any, default: Any) -> click.Parameter:
    """A parameter of a command, from that of an operation."""
    option = option_of(hint)
    if option is None:
        raise TypeError(f"{name} has no option")
    type_ = click.Choice([each.value for each in option.choices]) if option.choices else _plain_type(hint)
    is_required = default is inspect.Parameter.empty
    about: dict[str, Any] = {"type": type_, "metavar": option.metavar, "required": is_required}
    if not is_required:  # click takes even None as the value of a required parameter
        about["default"] = getattr(default, "value", default)
    if option.flag is None:
        return click.Argument([name], **about)
    is_flag = type_ is bool
    shown = default is not None and not is_flag
    return click.Option([option.flag, name], help=option.help, show_default=shown, is_flag=is_flag, **about)


class _KeyType(click.ParamType[dict[str, str]]):
    """The key of an entity, with the name of the entity."""

    name = "NAME=KEY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        """See click.ParamType."""
        name, sign, key = value.partition("=") if isinstance(value, str) else ("", "", "")
        if not name or not sign or not key:
            self.fail(f"expected NAME=KEY, got {value!r}", param, ctx)
        return {name: key}


class _TableType(click.ParamType[dict[str, Any]]):
    """The keys of a table of TOML, on one line."""

    name = "KEY=VALUE,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click.ParamType."""
        if isinstance(value, dict):
            return value
        try:
            return tomllib.loads(f"table = {{ {value} }}")["table"]
        except ValueError:
            self.fail(
                f'expected keys and values such as do = "drop", after = {{ event = 3 }}, got {value!r}', param, ctx
            )


def _plain_type(hint: Any) -> type | click.ParamType[Any]:
    """The type of a value: `int` for `Annotated[int, …] | None`."""
    if get_origin(hint) is dict:
        return _KeyType() if get_args(hint)[1] is str else _TableType()
    return hint if isinstance(hint, type) else _plain_type(get_args(hint)[0])


def _choose_method(parameters: dict[str, Any]) -> tuple[str, str]:
    """The method and the operation of `break`, whose own flags are removed from the parameters.  Raises InputError."""
    remove, clear, lists = (parameters.pop(flag) for flag in ("remove", "clear", "lists"))
    is_empty = all(value is None for value in parameters.values())
    if clear + lists + (not is_empty) != 1 or (remove and is_empty):
        raise InputError(
            "Specify the conditions of a breakpoint (--type, --sequence, --key, --finding), --clear or --list."
        )
    return ("GET", "state") if lists else ("DELETE" if remove or clear else "POST", _BREAKPOINTS)


for _name, _methods in OPERATIONS.items():
    _method = "POST" if "POST" in _methods else "GET"
    _add_command(_name, _method, _methods[_method])


# The state of a replay as lines; text of the recording is made printable.

_STATUS = {
    "waiting": "waiting for its first stream",
    "moving": "moving",
    "paused": "paused",
    "breakpoint": "stopped at a breakpoint",
    "end": "at the end",
}
_ENTRY_FIELDS = {"sequence": "sequence", "id": "id", "keys": "", "source": "recorded at"}
_CONDITIONS = {"type": "type", "sequence": "sequence", "keys": "", "finding": "finding"}


def _format_response(document: _Document) -> Iterator[str]:
    if document.get("stepped") is not None:
        yield f"passed: {_format_entry(document['stepped'])}"
    elif "found" in document:
        yield f"reached the end of the log after {count_of(document['found'], 'step')}"
    if "fault" in document:
        yield f"fault: {shorten(document['fault'])}"
    for channel in document["channels"]:
        yield from _format_channel(channel)
    for held in document["held"]:
        where = [held["channel"], held["connection"] and f"connection {held['connection']}"]
        yield shorten(", ".join(filter(None, ["held by " + held["fault"], *where])))
    requests = document["requests"]
    is_replay = requests["recorded"] is not None
    if not document["channels"]:
        yield f"no playhead: {'verbatim mode, or no recorded streams' if is_replay else 'no channel yet'}"
    refused = f" and {requests['refused']} refused" if requests["refused"] else ""
    others = f", {count_of(requests['recorded'], 'other request')}" if is_replay else ""
    yield f"served: {count_of(requests['streams'], 'stream')}{refused}{others}"
    for miss in requests["misses"]:
        yield f"no match: {shorten(miss['method'])} {shorten(miss['path'])}: {shorten(miss['message'], 600)}"


def _format_channel(channel: _Document) -> Iterator[str]:
    position = f"{channel['position']} of {channel['length']}, {channel['time_ms'] / 1000:.3f} s"
    yield f"{shorten(channel['channel'])}: {_STATUS.get(channel['status'], channel['status'])}, at {position}"
    if channel["next"] is not None:
        yield f"  next: {_format_entry(channel['next'])}"
    for point in channel["breakpoints"]:
        yield f"  breakpoint: {_format_breakpoint(point)}" + ("  (here)" if point == channel["stopped_by"] else "")
    for stream in channel["streams"]:
        start = f"after {shorten(stream['cursor'])}" if stream["cursor"] else "from the beginning"
        yield f"  stream: {start}, {'with' if stream['deltas'] else 'without'} deltas, at {stream['position']}"


def _format_entry(entry: _Document) -> str:
    """An entry of the log: `tool.started, sequence 3, id e3, tool call t1, recorded at 2:3`."""
    name = entry["type"] or ("ending " + entry["ending"] if entry["ending"] else entry["kind"])
    parts = [name, *_format_fields(entry, _ENTRY_FIELDS)]
    return shorten(", ".join([*parts, *_format_findings(entry["findings"])]), 400)


def _format_breakpoint(point: _Document) -> str:
    """The conditions of a breakpoint: `type tool.*, tool call t1`."""
    return shorten(", ".join(_format_fields(point, _CONDITIONS)), 400)


def _format_fields(document: _Document, labels: Mapping[str, str]) -> Iterator[str]:
    for key, label in labels.items():
        value = document[key]
        if isinstance(value, dict):
            yield from (f"{name.replace('_', ' ')} {each}" for name, each in value.items())
        elif value is not None:
            yield f"{label} {value or '(any)'}"


def _format_findings(codes: Sequence[str]) -> list[str]:
    return [f"findings {' '.join(codes)}"] if codes else []
