"""Reader of tapes: turns their documents into observations in time order.  `docs/tape.md` describes the format."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.errors import InputError
from wiretape.input_validation import KeyPath, validate
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
    reason_phrase,
)
from wiretape.recording.formats import FormatReader, SourcePosition
from wiretape.recording.formats.tape_deltas import JoinedSize, read_deltas
from wiretape.recording.formats.tape_schema import (
    DEFAULT_HTTP,
    JSON_HEADERS,
    SECOND_NS,
    STEP_NS,
    STREAM_HEADERS,
    VERSION,
    DeltasElement,
    LostElement,
    Seconds,
    TapeExchange,
    TapeHeader,
    element_bytes,
    element_chunks,
    is_target,
    nanoseconds,
    read_element,
    split_upstream,
)
from wiretape.recording.formats.tape_yaml import YamlDocument, load_documents
from wiretape.recording.recording_builder import (
    MAX_STATUS,
    MIN_STATUS,
    RecordingMetadata,
    RecordingSource,
    order_observations,
)
from wiretape.recording.table_rows import Capture
from wiretape.safe_text import printable

_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n|---[ \t]*\r?\n)*tape[ \t]*:[ \t]*[0-9]")
_FIRST_YEAR, _LAST_YEAR = 1970, 2199
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


def read(path: Path) -> RecordingSource:
    """Start to read a tape.  Raises InputError."""
    documents = load_documents(path)
    first = next(documents, None)
    if first is None:
        raise InputError(f"{path} is not a tape: it is empty.")
    header = _read_header(first)
    ended = nanoseconds(header.ended or UNSET, first.source, ("ended",)) if header.ended is not None else None
    captures = () if header.ended is UNSET else (Capture(header.tool, 0, ended),)
    contracts = dump_contracts(header.contracts)
    metadata = RecordingMetadata(header.upstream, _started_unix_ns(header, first), captures, header.redacted, contracts)
    return RecordingSource(metadata, _observations(documents, header.upstream))


def positions(path: Path) -> Iterator[SourcePosition]:
    """Yield the positions of requests, responses and elements of bodies in a tape that `read` accepts.

    Raises InputError.
    """
    documents = load_documents(path)
    upstream = split_upstream(_read_header(next(documents)).upstream)
    number = 0
    joined = JoinedSize()
    for document in documents:
        exchange = _ExchangeReader(document, upstream, joined)
        number = exchange.number_after(number)
        yield from exchange.positions(number)


def _read_header(document: YamlDocument) -> TapeHeader:
    value = document.value
    if "request" in value:
        raise document.source.error(("request",), "the header of a tape must end with the line ---")
    header = validate(value, TapeHeader, document.source)
    if header.tape != VERSION:
        raise document.source.error(("tape",), f"expected version {VERSION} of the format, got {header.tape}")
    return header


def _started_unix_ns(header: TapeHeader, document: YamlDocument) -> int:
    given = printable(repr(header.started))
    problem = f"expected a time in UTC, for example 2026-11-21T09:30:00.5Z, got {given}"
    error = document.source.error(("started",), problem)
    found = _INSTANT.fullmatch(header.started)
    if found is None:
        raise error
    try:
        second = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    except ValueError:
        raise error from None
    if not _FIRST_YEAR <= second.year <= _LAST_YEAR:
        raise document.source.error(("started",), f"expected a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return round(second.timestamp()) * SECOND_NS + int((found[2] or "").ljust(9, "0"))


def _observations(documents: Iterator[YamlDocument], upstream: str) -> Iterator[Observation]:
    """Return the observations with increasing times: at the same time, the exchange that is higher up comes first."""
    # A tape is small enough for memory; only the YAML parser needs far more than its size.
    yield from order_observations(_exchanges(documents, split_upstream(upstream)), step_ns=1)


def _exchanges(documents: Iterator[YamlDocument], upstream: tuple[str, str]) -> Iterator[list[Observation]]:
    """Yield the observations of each exchange, in time order."""
    number, began_ns, ended_ns = 0, 0, 0
    joined = JoinedSize()
    for document in documents:
        exchange = _ExchangeReader(document, upstream, joined)
        number = exchange.number_after(number)
        began_ns = ended_ns + STEP_NS if exchange.after_ns is None else began_ns + exchange.after_ns
        observations = exchange.observations(number, began_ns)
        ended_ns = observations[-1].time_ns
        yield observations


class _ExchangeReader:
    """Reads one exchange.  Raises InputError if it is invalid."""

    def __init__(self, document: YamlDocument, upstream: tuple[str, str], joined: JoinedSize) -> None:
        self._document = document
        self._joined = joined
        self._source = document.source
        self._upstream = upstream
        self._keys = document.value
        self._record = validate(self._keys, TapeExchange, self._source)
        if "events" in self._keys and "response-body" in self._keys:
            raise self._source.error(
                ("events",), "`events` and `response-body` both set the body of the response: use only one"
            )
        after = self._record.after
        self.after_ns = None if after is UNSET else self._nanoseconds("after", after)

    def number_after(self, before: int) -> int:
        """Return the number of the exchange; `before` is that of the exchange above."""
        number = self._record.number
        if isinstance(number, UnsetType):
            return before + 1
        if number <= before:
            raise self._source.error(
                ("number",), f"expected a number greater than {before}, the number of the previous exchange"
            )
        return number

    def _nanoseconds(self, key: str, seconds: Seconds, default: int = 0) -> int:
        return nanoseconds(seconds, self._source, (key,), default)

    def positions(self, number: int) -> Iterator[SourcePosition]:
        """Return where the request, the response and the elements of bodies are."""
        document, record = self._document, self._record
        yield SourcePosition(number, Side.REQUEST, None, *document.position(("request",)))
        yield SourcePosition(number, Side.RESPONSE, None, *document.position(("response",)))
        for key, side, body in (
            ("body", Side.REQUEST, record.body),
            ("response-body", Side.RESPONSE, record.response_body),
            ("events", Side.RESPONSE, record.events),
        ):
            if not isinstance(body, list):
                yield SourcePosition(number, side, 0, *document.position((key,)))
                continue
            start = 0
            for path, element in self._elements(key, body):
                yield SourcePosition(number, side, start, *document.position(path))
                start += element.lost if isinstance(element, LostElement) else sum(len(data) for _, data in element)

    def observations(self, number: int, at_ns: int) -> list[Observation]:
        """Return the observations of exchange `number`, which begins at `at_ns`, in time order."""
        record, ended = self._record, self._record.request_ended
        request = self._request(number, at_ns)
        body = list(self._body("body", record.body, number, Side.REQUEST, at_ns))
        if isinstance(ended, UnsetType):
            ended_ns = (body[-1].time_ns if body else at_ns) + STEP_NS
        else:
            ended_ns = at_ns + self._nanoseconds("request-ended", ended or UNSET)
        ends = [] if ended is None else [RequestEnded(number, ended_ns)]
        response = self._response(number, at_ns, ended_ns - at_ns + STEP_NS)
        found = [request, *sorted([*ends, *body, *response], key=lambda seen: seen.time_ns)]
        if record.ending is not Ending.OPEN or record.ended is not UNSET:
            after_ns = self._nanoseconds("ended", record.ended, STEP_NS)
            found.append(ExchangeEnded(number, found[-1].time_ns + after_ns, record.ending, record.detail))
        return found

    def _request(self, number: int, at_ns: int) -> RequestStarted:
        record = self._record
        method, target = self._request_line()
        scheme, authority = self._upstream
        return RequestStarted(
            exchange=number,
            time_ns=at_ns,
            client=record.client,
            method=method,
            scheme=scheme if isinstance(record.scheme, UnsetType) else record.scheme,
            authority=authority if isinstance(record.authority, UnsetType) else record.authority,
            target=target,
            http_version=record.http,
            headers=self._headers("headers", record.headers or (), ()),
            is_invented=record.headers is None,
        )

    def _request_line(self) -> tuple[str, str]:
        record = self._record
        method, space, target = record.request.partition(" ")
        if not isinstance(record.target, UnsetType):
            if space:
                raise self._source.error(("target",), "request must contain only a method if there is a target")
            return method, record.target
        if not space or not method:
            problem = "expected a method and a target, for example GET /v1/sessions/s1/events/stream"
            raise self._source.error(("request",), problem)
        if not is_target(method, target):
            problem = f"expected a target that begins with a slash, got {printable(target)}"
            raise self._source.error(("request",), problem)
        return method, target

    def _headers(self, key: str, given: Any, default: Headers) -> Headers:
        if given is UNSET:
            return default
        pairs = [pair for table in ([given] if isinstance(given, dict) else given) for pair in table.items()]
        headers = tuple((name, str(value)) for name, value in pairs)
        if any(ord(character) > 255 for pair in headers for part in pair for character in part):
            raise self._source.error((key,), "each character stands for one byte, so none can be above U+00FF")
        return headers

    def _response(self, number: int, at_ns: int, default_ns: int) -> Iterator[Observation]:
        """Return the response, which begins `default_ns` after the request unless the tape has its time."""
        record = self._record
        if record.response is None:
            for key in ("responded", "response-http", "response-headers", "response-body", "events"):
                if key in self._keys:
                    raise self._source.error((key,), f"without a response, {key} is not allowed")
            return
        status, reason = self._status(record.response)
        responded_ns = at_ns + self._nanoseconds("responded", record.responded, default_ns)
        key = "events" if "events" in self._keys else "response-body"
        body = record.events if key == "events" else record.response_body
        default = STREAM_HEADERS if key == "events" else JSON_HEADERS if isinstance(body, dict) else ()
        headers = self._headers("response-headers", record.response_headers, default)
        version = DEFAULT_HTTP if isinstance(record.response_http, UnsetType) else record.response_http
        yield ResponseStarted(number, responded_ns, status, reason, version, headers)
        yield from self._body(key, body, number, Side.RESPONSE, responded_ns)

    def _status(self, given: int | str) -> tuple[int, str]:
        if isinstance(given, int):
            if MIN_STATUS <= given <= MAX_STATUS:
                return given, reason_phrase(given)
        else:
            # With a reason, any number is allowed: faulty services have been recorded with smaller ones.
            number, space, reason = given.partition(" ")
            if number.isascii() and number.isdigit() and len(number) <= 3 and space:
                return int(number), reason
        problem = f"expected a status ({MIN_STATUS} to {MAX_STATUS}) such as 200 or 200 OK, or null for no response"
        raise self._source.error(("response",), problem)

    def _body(self, key: str, body: Any, number: int, side: Side, now_ns: int) -> Iterator[BytesArrived | BytesLost]:
        if body is UNSET:
            return
        if not isinstance(body, list):
            data = body.encode() if isinstance(body, str) else self._record.framing.encode_json(body)
            yield BytesArrived(number, side, 0, data, (len(data),), (now_ns + STEP_NS,))
            return
        start = 0
        for path, element in self._elements(key, body):
            if isinstance(element, LostElement):
                now_ns += nanoseconds(element.after, self._source, (*path, "after"), STEP_NS)
                yield BytesLost(number, now_ns, side, start, element.lost, element.why)
                start += element.lost
                continue
            for after_ns, data in element:
                now_ns += after_ns
                end = start + len(data)
                yield BytesArrived(number, side, start, data, (end,), (now_ns,))
                start = end

    def _elements(
        self, key: str, body: list[Any]
    ) -> Iterator[tuple[KeyPath, LostElement | Iterator[tuple[int, bytes]]]]:
        """Yield each element of a body: its path, and its chunks with the nanoseconds since the chunk before."""
        for index, value in enumerate(body):
            path = (key, index)
            kind, element = read_element(value, self._source, path)
            if isinstance(element, LostElement):
                yield path, element
            elif isinstance(element, DeltasElement):
                yield path, read_deltas(element, self._record.framing, self._joined, self._source, path)
            else:
                encoded = element_bytes(element, kind, self._record.framing, self._source, path)
                yield path, element_chunks(element, encoded, self._source, path)


READER = FormatReader(_BEGINNING.match, read, positions)
