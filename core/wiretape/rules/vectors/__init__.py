"""Vectors: for each rule the smallest traffic that breaks it, and the smallest that keeps it.

Each rule in Python has a TOML file, `CODE.toml`, in this folder or in the folder `vectors` of the package of its
contract.  It has a table for each vector, whose name begins with `breaks` or `keeps`.
One that breaks a rule gives exactly one finding, of that rule; one that keeps it exercises the rule and gives none.

    [breaks-without-id]
    shows = "One sentence on what the traffic shows."
    also = ["CLI001"]                      # further findings that this traffic cannot avoid
    severity = "error"                     # of the finding, if it is not that of the rule

    [[breaks-without-id.exchange]]         # one or more, in order of time
    request = "GET /v1/sessions/ses_1/events/stream?event_deltas=true"
    headers = ["Authorization: Bearer key_1"]                  # the default
    client = "127.0.0.1"                                       # the default
    authority = "service.test"                                 # the default
    request_body = ""                                          # the default
    at = 0.0                               # seconds; by default one second after the end of the previous exchange
    status = 200                           # the default; 0 for no response
    response_headers = ["Content-Type: text/event-stream"]     # the default for 200; else application/json
    ending = "complete"                    # the default; one of `wiretape.observations.Ending`
    ends_after = 0.0                       # the default: seconds between the last byte and the end
    latin1 = false                         # true: each character of the body stands for one byte
    body = '''
    event: message.delta
    data: {"type":"message.delta","run_id":"run_1","delta":{"text":"Hi"}}

    '''

Instead of `body`, tables `[[NAME.exchange.part]]` can give its parts: each has a `text`, or the number of bytes that
were `lost`, and `after`, the seconds since the previous part.  If the response headers contain
`Content-Encoding: gzip`, the body is compressed.
"""

import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from wiretape.installed_parts import CONTRACTS as _GROUP
from wiretape.installed_parts import find_part, part_names
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.rules.finding import Severity

_SECOND = 1_000_000_000
_STEP = 1_000_000
"""Observations without a time of their own are one millisecond apart."""
_JSON = ("Content-Type: application/json",)
_EVENT_STREAM = ("Content-Type: text/event-stream",)


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a body."""

    text: str = ""
    lost: int = 0
    after: float = 0.0


class _Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    request: str
    headers: tuple[str, ...] = ("Authorization: Bearer key_1",)
    client: str = "127.0.0.1"
    authority: str = "service.test"
    request_body: str = ""
    at: float | None = None
    status: int = 200
    response_headers: tuple[str, ...] | None = None
    ending: Ending = Ending.COMPLETE
    ends_after: float = 0.0
    latin1: bool = False
    body: str = ""
    part: tuple[_Part, ...] = ()

    @property
    def all_response_headers(self) -> Headers:
        return read_headers(default_headers(self.status) if self.response_headers is None else self.response_headers)

    def parts(self) -> Iterator[tuple[_Part, bytes]]:
        """Yield the parts of the body with their bytes as they cross the wire."""
        is_compressed = header(self.all_response_headers, "content-encoding") == "gzip"
        for part in self.part or (_Part(self.body),):
            data = part.text.encode("latin-1" if self.latin1 else "utf-8")
            # gzip.compress writes another header since Python 3.13, and the docs show it.
            yield part, zlib.compress(data, 9, wbits=31) if is_compressed else data


class _Traffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    exchange: tuple[_Exchange, ...]
    shows: str = ""
    """What the traffic shows, in one sentence."""
    also: tuple[str, ...] = ()
    """Codes of further findings that it cannot avoid."""
    severity: Severity | None = None
    """The severity of the finding, if it is not that of the rule."""

    def observations(self, piece: int | None = None) -> list[Observation]:
        """Return the traffic as observations.  With `piece`, bodies arrive in pieces of at most that many bytes."""
        observed: list[Observation] = []
        begin_ns = _SECOND
        for number, exchange in enumerate(self.exchange, 1):
            at_ns = begin_ns if exchange.at is None else round(exchange.at * _SECOND)
            of_exchange = list(_observe_exchange(number, at_ns, exchange, piece))
            begin_ns = of_exchange[-1].time_ns + _SECOND
            observed += of_exchange
        return _make_times_unique(sorted(observed, key=lambda observation: observation.time_ns))


class Vector(_Traffic, frozen=True, kw_only=True, eq=False):
    """One vector: some traffic, and whether it breaks the rule."""

    code: str
    name: str
    """Begins with `breaks` or `keeps`."""

    @property
    def breaks(self) -> bool:
        """Whether the traffic breaks the rule."""
        return self.name.startswith("breaks")


@cache
def vector_files() -> Mapping[str, Traversable]:
    """Return the files of vectors by the code of the rule, in the order of the codes."""
    modules = [entry.module for name in part_names(_GROUP) if (entry := find_part(_GROUP, name)) is not None]
    folders = [files(__name__), *(files(module).joinpath("vectors") for module in modules)]
    found = [file for folder in folders if folder.is_dir() for file in folder.iterdir() if file.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): file for file in sorted(found, key=lambda file: file.name)}


@cache
def vectors() -> tuple[Vector, ...]:
    """Return all vectors, ordered by code and name."""
    return tuple(vector for code in vector_files() for vector in vectors_of(code))


@cache
def vectors_of(code: str) -> tuple[Vector, ...]:
    """Return the vectors of one rule, ordered by name; none if its examples are in the file of its contract."""
    file = vector_files().get(code)
    tables = {} if file is None else tomllib.loads(file.read_text("utf-8"))
    named = [table | {"code": code, "name": name} for name, table in sorted(tables.items())]
    return msgspec.convert(tuple(named), tuple[Vector, ...])


def observations_of(document: Mapping[str, Any], piece: int | None = None) -> list[Observation]:
    """Return the observations of a parsed vector, in order of time.

    With `piece`, bodies arrive in pieces of at most that many bytes.  Raises msgspec.ValidationError for an invalid
    document.
    """
    return msgspec.convert(document, _Traffic).observations(piece)


def _observe_exchange(number: int, now: int, exchange: _Exchange, piece: int | None) -> Iterator[Observation]:
    method, _, target = exchange.request.partition(" ")
    headers = read_headers(exchange.headers)
    authority = exchange.authority
    yield RequestStarted(number, now, exchange.client, method, "http", authority, target, "HTTP/1.1", headers)
    if exchange.request_body:
        now += _STEP
        data = exchange.request_body.encode()
        yield BytesArrived(number, Side.REQUEST, 0, data, (len(data),), (now,))
    now += _STEP
    yield RequestEnded(number, now)
    if exchange.status:
        now += _STEP
        status = HTTPStatus(exchange.status)
        yield ResponseStarted(number, now, status, status.phrase, "HTTP/1.1", exchange.all_response_headers)
        for observation in _observe_body(number, now, exchange, piece):
            yield observation
            now = observation.time_ns
    if exchange.ending is not Ending.OPEN:
        yield ExchangeEnded(number, now + _STEP + round(exchange.ends_after * _SECOND), exchange.ending)


def _observe_body(number: int, now: int, exchange: _Exchange, piece: int | None) -> Iterator[Observation]:
    start = 0
    for part, data in exchange.parts():
        now += _STEP + round(part.after * _SECOND)
        if part.lost:
            yield BytesLost(number, now, Side.RESPONSE, start, part.lost, "the backlog was full")
            start += part.lost
        for begin in range(0, len(data), piece or len(data) or 1):
            cut = data[begin : begin + (piece or len(data))]
            yield BytesArrived(number, Side.RESPONSE, start, cut, (start + len(cut),), (now,))
            start += len(cut)


def default_headers(status: int) -> tuple[str, ...]:
    """Return the lines of the response headers for a status: those of an event stream for 200, otherwise of JSON."""
    return _EVENT_STREAM if status == 200 else _JSON


def read_headers(lines: Sequence[str]) -> Headers:
    """Return the names and values in lines of headers."""
    return tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))


def _make_times_unique(observed: list[Observation]) -> list[Observation]:
    """Move observations at equal times apart by nanoseconds."""
    last = 0
    for index, seen in enumerate(observed):
        last = max(last + 1, seen.time_ns)
        if last != seen.time_ns:
            observed[index] = (
                replace(seen, times=(last,)) if isinstance(seen, BytesArrived) else replace(seen, time_ns=last)
            )
    return observed
