"""JSON lines, read back."""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from wiretape.errors import InputError
from wiretape.files import read_error
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
)
from wiretape.recording.recording_source import (
    MAX_HELD_BYTES,
    MAX_REDACTED,
    MAX_STATUS,
    RecordingMetadata,
    RecordingSource,
)
from wiretape.recording.recording_types import Capture
from wiretape.rules.finding import Finding, Party, Severity
from wiretape.safe_text import printable
from wiretape.toml import Table, hint, wrong_at
from wiretape.toml_places import Place

KIND = "recording"
VERSION = 1
_BEGINS = re.compile(rb'\s*\{\s*"kind"\s*:\s*"recording"')


def begins(data: bytes) -> bool:
    """Whether a file of JSON lines begins so."""
    return _BEGINS.match(data) is not None


def read(path: Path) -> RecordingSource:
    """Begin to read a file of JSON lines.  Raises InputError."""
    file = _objects(path)
    head = _head(next(file))
    captures = []
    found: list[Finding] = []
    first = next(file, None)
    while first is not None and first.values["kind"] == "capture":
        captures.append(_capture(first))
        first = next(file, None)
    head = RecordingMetadata(head.upstream, head.started_unix_ns, tuple(captures), head.redacted)
    return RecordingSource(head, _observations(first, file, found), found)


@dataclass(frozen=True, slots=True)
class _Line:
    """Says where a line is wrong."""

    path: Path
    number: int

    def wrong(self, place: Place, what: str) -> InputError:
        """See `wiretape.toml.Told`."""
        return wrong_at(self.path, self.number, place, what)


def _objects(path: Path) -> Iterator[Table]:
    """The lines that are not empty, as tables with a `kind`."""
    try:
        with path.open("rb") as file:
            for number, text in enumerate(iter(lambda: file.readline(MAX_HELD_BYTES + 1), b""), 1):
                if len(text) > MAX_HELD_BYTES:
                    raise _Line(path, number).wrong((), f"it is longer than {MAX_HELD_BYTES >> 20} MiB")
                if text.strip():
                    yield _object(_Line(path, number), text)
    except OSError as error:
        raise InputError(read_error(path, error)) from None


def _object(line: _Line, text: bytes) -> Table:
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise line.wrong((), f"it is no JSON: {printable(error.msg)} (column {error.colno})") from None
    if not isinstance(values, dict):
        raise line.wrong((), "it has to be a JSON object")
    table = Table(line, values)
    table.text("kind")
    return table


def _head(table: Table) -> RecordingMetadata:
    table.only(["kind", "format", "upstream", "started", "started_unix_ns", "redacted"], "key")
    version = table.integer("format", least=1)
    if version > VERSION:
        raise table.wrong("format", f"it is {version}, this wiretape reads up to {VERSION}: use a newer wiretape")
    return RecordingMetadata(
        _any_text(table, "upstream"),
        table.integer("started_unix_ns"),
        (),
        table.integer("redacted", 0, most=MAX_REDACTED),
    )


def _capture(table: Table) -> Capture:
    table.only(["kind", "tool", "began_ns", "ended_ns"], "key")
    return Capture(table.text("tool"), table.integer("began_ns"), _maybe(table, "ended_ns"))


def _observations(first: Table | None, rest: Iterator[Table], found: list[Finding]) -> Iterator[Observation]:
    """The observations; findings are put aside."""
    reading = _Reading()
    table = first
    while table is not None:
        kind = table.values["kind"]
        if kind == "finding":
            found.append(_finding(table, reading))
        elif kind in _KINDS:
            yield reading.observation(table, kind)
        else:
            raise table.wrong("kind", f"there is no kind {printable(str(kind))}{hint(str(kind), _KINDS)}")
        table = next(rest, None)


class _Reading:
    """What was read, as far as what comes depends on it."""

    def __init__(self) -> None:
        self._last_ns = self._last_number = 0
        self._numbers = set[int]()
        """Of all exchanges."""
        self._open: dict[int, dict[Side, int]] = {}
        """Of each exchange that goes on, where its bodies have got to."""

    def observation(self, table: Table, kind: str) -> Observation:
        """What a line says.  Raises InputError."""
        number, time_ns = table.integer("exchange", least=1), table.integer("time_ns")
        if time_ns <= self._last_ns:
            raise table.wrong("time_ns", f"it has to be above {self._last_ns}, that of the line before")
        self._last_ns = time_ns
        if kind == "request":
            if number <= self._last_number:
                raise table.wrong("exchange", f"it has to be above {self._last_number}, that of the request before")
            self._last_number = number
            self._numbers.add(number)
            self._open[number] = dict.fromkeys(Side, 0)
        elif number not in self._open:
            raise table.wrong("exchange", f"no request of exchange {number} stands before it, or it has ended")
        if kind == "chunk":
            return self._chunk(table, number, time_ns)
        if kind == "lost":
            return self._lost(table, number, time_ns)
        if kind == "ended":
            del self._open[number]
        return _MARKS[kind](table, number, time_ns)

    def exchange(self, table: Table) -> int:
        """The exchange that a finding is about."""
        number = table.integer("exchange", least=1)
        if number not in self._numbers:
            raise table.wrong("exchange", f"no request of exchange {number} stands before it")
        return number

    def _chunk(self, table: Table, number: int, time_ns: int) -> Observation:
        table.only(["kind", "exchange", "time_ns", "side", "start", "text", "base64"], "key")
        side, start = self._place(table, number)
        data = _content(table)
        end = self._open[number][side] = start + len(data)
        return BytesArrived(number, side, start, data, (end,), (time_ns,))

    def _lost(self, table: Table, number: int, time_ns: int) -> Observation:
        table.only(["kind", "exchange", "time_ns", "side", "start", "count", "why"], "key")
        side, start = self._place(table, number)
        count = table.integer("count")
        self._open[number][side] = start + count
        return BytesLost(number, time_ns, side, start, count, _any_text(table, "why"))

    def _place(self, table: Table, number: int) -> tuple[Side, int]:
        """Which body, and where in it: where what came before ended, or, with a `start`, behind that."""
        side = Side(table.one_of("side", list(Side), Side.RESPONSE))
        reached = self._open[number][side]
        return side, table.integer("start", reached, least=reached)


def _request(table: Table, number: int, time_ns: int) -> Observation:
    texts = ("client", "method", "scheme", "authority", "target", "http_version")
    table.only(["kind", "exchange", "time_ns", *texts, "headers"], "key")
    said = {name: _any_text(table, name) for name in texts}
    return RequestStarted(exchange=number, time_ns=time_ns, headers=_headers(table), **said)


def _request_ended(table: Table, number: int, time_ns: int) -> Observation:
    table.only(["kind", "exchange", "time_ns"], "key")
    return RequestEnded(number, time_ns)


def _response(table: Table, number: int, time_ns: int) -> Observation:
    table.only(["kind", "exchange", "time_ns", "status", "reason", "http_version", "headers"], "key")
    status, reason, version = (
        table.integer("status", most=MAX_STATUS),
        _any_text(table, "reason"),
        _any_text(table, "http_version"),
    )
    return ResponseStarted(number, time_ns, status, reason, version, _headers(table))


def _ended(table: Table, number: int, time_ns: int) -> Observation:
    table.only(["kind", "exchange", "time_ns", "ending", "detail"], "key")
    return ExchangeEnded(number, time_ns, Ending(table.one_of("ending", list(Ending))), _any_text(table, "detail", ""))


_MARKS: dict[str, Callable[[Table, int, int], Observation]] = {
    "request": _request,
    "request-ended": _request_ended,
    "response": _response,
    "ended": _ended,
}
_KINDS = (*_MARKS, "chunk", "lost", "finding")


def _finding(table: Table, reading: "_Reading") -> Finding:
    names = ("code", "severity", "side", "exchange", "event", "sequence", "byte_offset", "time_ns", "message")
    table.only(["kind", *names], "key")
    return Finding(
        code=table.text("code"),
        severity=Severity(table.one_of("severity", list(Severity))),
        side=Party(table.one_of("side", list(Party))),
        exchange=reading.exchange(table),
        event=_maybe(table, "event"),
        sequence=_maybe(table, "sequence", least=-(2**63)),
        byte_offset=_maybe(table, "byte_offset"),
        time_ns=table.integer("time_ns"),
        message=_any_text(table, "message"),
    )


def _maybe(table: Table, key: str, least: int = 0) -> int | None:
    return None if table.values.get(key) is None else table.integer(key, least=least)


def _any_text(table: Table, key: str, default: str | None = None) -> str:
    """A text, which may be empty."""
    return "" if table.values.get(key) == "" else table.text(key, default)


def _content(table: Table) -> bytes:
    if ("text" in table) == ("base64" in table):
        raise table.wrong(None, "a chunk has a text or base64, one of them")
    if "text" in table:
        return _any_text(table, "text").encode()
    try:
        return b64decode(_any_text(table, "base64"), validate=True)
    except ValueError:
        raise table.wrong("base64", "it is no base64") from None


def _headers(table: Table) -> Headers:
    listed = table.values.get("headers")
    if not isinstance(listed, list) or not all(_is_header(pair) for pair in listed):
        raise table.wrong("headers", "it has to be a list of [name, value], each character standing for one byte")
    return tuple((name, value) for name, value in listed)


def _is_header(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        return False
    return all(ord(character) < 256 for part in pair for character in part)
