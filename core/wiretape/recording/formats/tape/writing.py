"""A recording as a tape: its head, then its exchanges one after the other.

Memory holds an exchange's head and a few chunks of it.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal

from wiretape.content_encoding import is_identity
from wiretape.observations import BytesArrived, BytesLost, Ending, Headers, Side, reason_phrase
from wiretape.recording.formats.tape.cutting import Group, grouped
from wiretape.recording.formats.tape.exchanges import CLIENT, HTTP, STREAM_HEADERS, Around
from wiretape.recording.formats.tape.framing import FIELDS, PLAIN, Framing
from wiretape.recording.formats.tape.heads import is_target
from wiretape.recording.formats.tape.items import SECOND, STEP_NS
from wiretape.recording.formats.tape.pieces import exact, framing_of, json_or_exact, pieces_of
from wiretape.recording.formats.tape.yaml_text import scalar
from wiretape.recording.recording_reader import Recording
from wiretape.recording.recording_source import MIN_STATUS
from wiretape.recording.recording_types import Exchange
from wiretape.sse import FrameKind, Parser

_PREVIEW = 256 * 1024
_BATCH = 500


def write(recording: Recording, exchanges: Iterable[Exchange] | None) -> Iterator[bytes]:
    """A tape of a recording, or of some of its exchanges."""
    lines = _lines(recording, recording.exchanges() if exchanges is None else exchanges)
    some: list[str] = []
    for line in lines:
        some.append(line)
        if len(some) == _BATCH:
            yield "\n".join([*some, ""]).encode()
            some.clear()
    yield "\n".join([*some, ""]).encode()


def _lines(recording: Recording, exchanges: Iterable[Exchange]) -> Iterator[str]:
    info = recording.info
    around = Around.of(info.upstream)
    yield "# A wiretape tape: docs/tape.md says what can stand here."
    yield "tape: 1"
    yield f"upstream: {scalar(info.upstream)}"
    second, fraction = divmod(info.started_unix_ns, SECOND)
    yield f"started: {datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
    yield f"ended: {'null' if info.ended_ns is None else in_seconds(info.ended_ns)}"
    yield f"tool: {scalar(info.tool)}"
    if info.redacted:
        yield f"redacted: {info.redacted}"
    before = 0
    for exchange in exchanges:
        yield "---"
        if exchange.number != before + 1:
            yield f"number: {exchange.number}"
        before = exchange.number
        yield from _Exchange(recording, exchange, around).lines()


def in_seconds(ns: int) -> str:
    """Nanoseconds as seconds, exactly and as shortly as that goes."""
    text = f"{Decimal(ns).scaleb(-9):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class _Exchange:
    """Writes one exchange."""

    def __init__(self, recording: Recording, exchange: Exchange, around: Around) -> None:
        self._recording, self._exchange, self._around = recording, exchange, around
        self._at_ns = exchange.request.time_ns
        self._last_ns = self._at_ns
        self._as_events = exchange.is_stream and is_identity(exchange.content_encoding)
        self._framing = self._told_framing()

    def lines(self) -> Iterator[str]:
        """Its lines."""
        yield from self._request()
        yield from self._framing_lines()
        yield from self._body("body", Side.REQUEST, self._at_ns)
        yield from self._answer()
        yield from self._end()

    def _request(self) -> Iterator[str]:
        request = self._exchange.request
        if is_target(request.method, request.target):
            yield f"request: {scalar(f'{request.method} {request.target}')}"
        else:
            yield f"request: {scalar(request.method)}"
            yield f"target: {scalar(request.target)}"
        yield f"at: {in_seconds(request.time_ns)}"
        given = (request.client, request.scheme, request.authority, request.http_version)
        usual = (CLIENT, self._around.scheme, self._around.authority, HTTP)
        for key, value, default in zip(("client", "scheme", "authority", "http"), given, usual, strict=True):
            if value != default:
                yield f"{key}: {scalar(value)}"
        yield from _headers("headers", request.headers, ())

    def _answer(self) -> Iterator[str]:
        asked_ns, response = self._exchange.request_ended_ns, self._exchange.response
        yield f"asked: {'null' if asked_ns is None else in_seconds(asked_ns - self._at_ns)}"
        self._last_ns = max(self._last_ns, asked_ns or 0)
        if response is None:
            yield "answer: null"
            return
        usual = response.reason == reason_phrase(response.status) and response.status >= MIN_STATUS
        yield f"answer: {response.status if usual else scalar(f'{response.status} {response.reason}')}"
        yield f"answered: {in_seconds(response.time_ns - self._at_ns)}"
        if response.http_version != HTTP:
            yield f"answer-http: {scalar(response.http_version)}"
        self._last_ns = max(self._last_ns, response.time_ns)
        yield from self._answer_body(response.headers, response.time_ns)

    def _answer_body(self, headers: Headers, now_ns: int) -> Iterator[str]:
        key = "events" if self._as_events else "answer-body"
        lines = self._body(key, Side.RESPONSE, now_ns)
        first = next(lines, None)
        yield from _headers("answer-headers", headers, STREAM_HEADERS if self._as_events and first else ())
        if first is not None:
            yield first
            yield from lines

    def _end(self) -> Iterator[str]:
        exchange = self._exchange
        if exchange.ending is not Ending.COMPLETE:
            yield f"ending: {exchange.ending}"
        if exchange.ended_ns is not None:
            yield f"ended: {in_seconds(exchange.ended_ns - self._last_ns)}"
        if exchange.detail:
            yield f"detail: {scalar(exchange.detail)}"

    def _body(self, key: str, side: Side, now_ns: int) -> Iterator[str]:
        parts = self._recording.body(self._exchange.number, side)
        begun = False
        for each in grouped(parts, as_events=key == "events"):
            if not begun:
                yield f"{key}:"
                begun = True
            yield from self._item(each, now_ns)
            now_ns = each.time_ns if isinstance(each, BytesLost) else each.times[-1]
            self._last_ns = max(self._last_ns, now_ns)

    def _item(self, group: Group | BytesLost, now_ns: int) -> Iterator[str]:
        after_ns = group.time_ns - now_ns
        mark = "- "
        if after_ns != STEP_NS:
            yield f"- after: {in_seconds(after_ns)}"
            mark = "  "
        if isinstance(group, BytesLost):
            yield f"{mark}lost: {group.count}"
            if group.why:
                yield f"  why: {scalar(group.why)}"
            return
        yield from self._content(group, mark)
        if len(group.ends) > 1:
            times = zip(group.times, group.times[1:], strict=False)
            cuts = [f"[{end}, {in_seconds(b - a)}]" for end, (a, b) in zip(group.ends, times, strict=False)]
            yield f"  cut: [{', '.join(cuts)}]"

    def _content(self, group: Group, mark: str) -> Iterator[str]:
        if group.frames is None:
            pieces = [json_or_exact(group.data)]
        else:
            pieces = list(pieces_of(group.frames, self._framing)) or [exact(b"")]
        if len(pieces) == 1:
            first, *rest = pieces[0].lines("  ")
            yield mark + first
            yield from rest
            return
        yield f"{mark}pieces:"
        for piece in pieces:
            first, *rest = piece.lines("    ")
            yield f"  - {first}"
            yield from rest

    def _told_framing(self) -> Framing:
        """What its beginning tells of how it writes events."""
        if self._as_events:
            parser = Parser()
            frames = (frame for part in self._beginning(Side.RESPONSE) for frame in parser.feed(part))
            return framing_of(frame for frame in frames if frame.kind is FrameKind.MESSAGE)
        return PLAIN

    def _beginning(self, side: Side) -> Iterator[bytes]:
        size = 0
        for part in self._recording.body(self._exchange.number, side):
            if isinstance(part, BytesArrived):
                yield part.data
                size += len(part.data)
            if size > _PREVIEW or isinstance(part, BytesLost):
                return

    def _framing_lines(self) -> Iterator[str]:
        framing = self._framing
        options = {
            f"fields: [{', '.join(framing.fields)}]": framing.fields != FIELDS,
            f"line-end: {framing.line_end}": framing.line_end != PLAIN.line_end,
            f"json: {framing.json}": framing.json != PLAIN.json,
            "space: false": not framing.space,
        }
        said = [text for text, odd in options.items() if odd]
        if said:
            yield f"framing: {{{', '.join(said)}}}"


def _headers(key: str, headers: Headers, usual: Headers) -> Iterator[str]:
    if headers == usual:
        return
    if not headers:
        yield f"{key}: []"
        return
    yield f"{key}:"
    for name, value in headers:
        yield f"- {scalar(name)}: {scalar(value, number=True)}"
