"""One event of a stream in detail: its bytes, fields, data, chunks and findings, and the events around it."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from wiretape.contract.vocabulary import Vocabulary
from wiretape.errors import InputError
from wiretape.event import Event, TimedFrame
from wiretape.json_codec import UnreadableJson
from wiretape.labels import count_of
from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording, known_rules
from wiretape.rules.exchange import may_be_unread
from wiretape.sse import FrameKind
from wiretape.units import format_integer, format_size, format_time
from wiretape_inspect.rule_output import reason_lines
from wiretape_inspect.terminal_output import BLANK, Line, Part, labelled
from wiretape_inspect.timeline_text import (
    column_titles,
    exchange_line,
    finding_line,
    header_lines,
    row_line,
    type_style,
)
from wiretape_inspect.view.accumulated_state import JoinedText, Span, State, state_at
from wiretape_inspect.view.timeline_rows import EventRow, event_rows

MAX_BYTES = 4096
"""Bytes of an event, and characters of its data, that are shown."""
Chunk = tuple[int, int, int]
"""Begin and end of a chunk in the body as it arrived, and when it arrived (ns)."""
_LOCATION = re.compile(r"(\d{1,18}):(\d{1,18})")
_HEX_COLUMNS = 16
_MAX_TEXT = 400
"""Characters of a text of the client that are shown: the last ones."""
_MAX_SPANS = 10
_UNREAD = "if it has read this event: the connection ended within a second"
_MAX_INDENT = 30
"""Depth of JSON from which on lines are indented no further."""
_TOKEN = re.compile(r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")|(?P<sign>[{}\[\],:])|[^\s{}\[\],:"]++')
_OPENING, _CLOSING = "{[", "}]"


@dataclass(frozen=True, slots=True)
class EventContext:
    """The row of an event and those of its neighbours on the same connection, without findings."""

    row: EventRow
    before: EventRow | None
    after: EventRow | None


def parse_location(text: str, example: str = "EXCHANGE:EVENT, for example 2:57") -> tuple[int, int]:
    """Parse `2:57` into two numbers.  Raises InputError, which mentions the `example`."""
    match = _LOCATION.fullmatch(text.strip())
    if match is None:
        raise InputError(f"Invalid location {text!r}: expected {example}.")
    return int(match[1]), int(match[2])


def find_event(recording: Recording, exchange: Exchange, event: int) -> EventContext:
    """Find an event by its number.  Raises InputError if it does not exist."""
    if not exchange.is_stream:
        raise InputError(
            f"Exchange {exchange.number} is not an event stream: show it with --exchange {exchange.number}."
        )
    before: EventRow | None = None
    rows = event_rows(recording, exchange, event - 1)
    for row in rows:
        if row.event.number == event:
            return EventContext(row, before, next(rows, None))
        before = row
    last = max((found.number for found in recording.events(exchange.number)), default=0)
    hint = {0: "it has no events", 1: "its only event is 1"}.get(last, f"its events are 1 to {last}")
    raise InputError(f"Exchange {exchange.number} has no event {event}: {hint}.")


def find_cut_event(recording: Recording, exchange: Exchange, start: int, event: int = 1) -> TimedFrame:
    """Find the bytes of an event that was cut off, which begin at offset `start`, searching from event number `event`.

    Raises InputError if there are none.
    """
    for seen in recording.frames(exchange.number, event):
        if seen.frame.start >= start:
            if (seen.frame.kind, seen.frame.start) == (FrameKind.TAIL, start):
                return seen
            break
    raise InputError(f"Exchange {exchange.number} has no event that was cut off at byte {start}.")


def detail_lines(
    recording: Recording, exchange: Exchange, context: EventContext, *, with_headers: bool = False
) -> Iterator[Line]:
    """Yield the lines about an event and what a client knows just after it."""
    event, vocabulary = context.row.event, exchange.vocabulary
    yield exchange_line(exchange)
    yield from header_lines(exchange) if with_headers else ()
    yield column_titles()
    if context.before is not None:
        yield row_line(context.before, vocabulary)
    line = row_line(context.row, vocabulary)
    yield replace(line, parts=[f"▶{line.parts[0][0][1:]}", *line.parts[1:]])
    rules = known_rules(recording.info.contracts)
    for found in recording.findings(exchange.number):
        if found.event == event.number:
            yield finding_line(found)
            yield from reason_lines(rules[found.code], indent=18) if found.code in rules else ()
    if context.after is not None:
        yield row_line(context.after, vocabulary)
    yield BLANK
    yield from _field_lines(recording, exchange, event)
    yield from _data_lines(event)
    yield BLANK
    state = state_at(recording, exchange, event.number)
    yield from _state_lines(
        state, vocabulary, may_be_unread=may_be_unread(event.time_ns, exchange.ending, exchange.ended_ns)
    )
    yield BLANK
    yield from _hex_lines(event.raw, event.frame.start)


def _label_line(label: str, *parts: Part) -> Line:
    """A line with a label in the first column."""
    return labelled((f"{label:>8}  ", "dim"), *parts)


def _state_lines(state: State, vocabulary: Vocabulary, *, may_be_unread: bool) -> Iterator[Line]:
    """Yield the lines of what a client knows after an event, which it may not have read."""
    if vocabulary.idle:
        yield _label_line(vocabulary.channel, state.channel)
    for entity in vocabulary.entities.values():
        spans = state.entities[entity.name]
        shown = spans[-_MAX_SPANS:] if entity.within is None else spans[:_MAX_SPANS]
        for span in shown:
            outcome = (_outcome(span), type_style(span.outcome, vocabulary))
            yield _label_line(entity.short, f"{span.id}  ", outcome, f"  {span.name}")
        if entity.within is not None and len(spans) > _MAX_SPANS:
            yield _label_line(entity.short, f"… and {len(spans) - _MAX_SPANS} more open {entity.label}s")
    for name, text in state.texts.items():
        yield from _text_lines(name, text)
    sequence = "" if state.last_sequence is None else f", after sequence {format_integer(state.last_sequence)}"
    cursor = f"{vocabulary.cursor_name}: {state.cursor}" if state.cursor else f"no {vocabulary.cursor_name}"
    yield _label_line("resume", f"{cursor}{sequence}")
    if may_be_unread:
        yield _label_line("", _UNREAD)
    if len(state.connections) > 1:
        yield _label_line("from", f"exchanges {', '.join(map(str, state.connections))}")


def _outcome(span: Span) -> str:
    began, ended = span.began, span.ended
    if ended is not None:
        return f"{span.outcome} at {ended.exchange}:{ended.event}"
    since = f"since {began.exchange}:{began.event}, {format_time(began.time_ns)}" if began else "start not recorded"
    return f"open, {since}"


def _text_lines(label: str, text: JoinedText) -> Iterator[Line]:
    if text.characters:
        ellipsis = "…" if text.characters > _MAX_TEXT else ""
        progress = "final" if text.final else "so far"
        yield _label_line(label, f"{count_of(text.characters, 'char')} {progress}: {ellipsis}{text.text[-_MAX_TEXT:]}")


def _field_lines(recording: Recording, exchange: Exchange, event: Event) -> Iterator[Line]:
    frame = event.frame
    yield _label_line("bytes", f"{frame.start}-{frame.end} of the decoded body, {format_size(len(frame.raw))}")
    yield _label_line("time", f"{format_time(event.time_ns)} ({event.time_ns:,} ns since the recording began)")
    if exchange.content_encoding is None:
        yield _label_line("chunks", _describe_chunks(list(chunks(recording, exchange, frame.start, frame.end))))
    else:
        yield _label_line("chunks", f"unknown, because the body is encoded ({exchange.content_encoding})")
    has_own_cursor = event.format.cursor is not None
    cursor = event.cursor if has_own_cursor else frame.last_event_id.decode("utf-8", "replace")
    yield _label_line("cursor", f"{cursor} after this event" if cursor else "none after this event")
    fields = ((name, value) for name, value in frame.fields if name != b"data")
    for name, value in islice(fields, 50):
        yield _label_line("field", f"{_field_text(name)}: {_field_text(value)}")


def _field_text(value: bytes) -> str:
    text = value[:MAX_BYTES].decode("utf-8", "backslashreplace")
    return text if len(value) <= MAX_BYTES else f"{text}… ({format_size(len(value))})"


def chunks(recording: Recording, exchange: Exchange, start: int, end: int) -> Iterator[Chunk]:
    """Yield the chunks that hold the bytes from `start` to `end` of the body as it arrived."""
    for part in recording.body(exchange.number, Side.RESPONSE, start):
        if not isinstance(part, BytesArrived) or part.end <= start:
            continue
        if part.start >= end:
            break
        begin = part.start
        for until, time_ns in zip(part.ends, part.times, strict=True):
            if begin < end and until > start:
                yield begin, until, time_ns
            begin = until


def _describe_chunks(found: Sequence[Chunk]) -> str:
    pieces = [f"{start}-{end} at {format_time(time_ns)}" for start, end, time_ns in found]
    shown = ", ".join(pieces[:4]) + (f" … {pieces[-1]}" if len(pieces) > 4 else "")
    return f"{count_of(len(pieces), 'chunk')}: {shown}"


def _hex_lines(raw: bytes, start: int) -> Iterator[Line]:
    """Yield the bytes in hexadecimal and as text, sixteen a line, with their offsets."""
    for offset in range(0, min(len(raw), MAX_BYTES), _HEX_COLUMNS):
        part = raw[offset : offset + _HEX_COLUMNS]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        label = (f"{start + offset:>8}  ", "dim")
        yield labelled(label, f"{part.hex(' '):<{3 * _HEX_COLUMNS}}", (f" {text}", "dim"))
    if len(raw) > MAX_BYTES:
        more = f"… and {format_size(len(raw) - MAX_BYTES)} more; --json prints all bytes"
        yield Line([(f"{start + MAX_BYTES:>8}  ", "dim"), (more, "dim")])


def _data_lines(event: Event) -> Iterator[Line]:
    """Yield the lines of the data, the first with a label: JSON indented, anything else unchanged."""
    data, is_json = event.data, not isinstance(event.value, UnreadableJson)
    text = data.decode("utf-8", "replace")
    label = "data"
    # Bytes that are not UTF-8 become escapes.
    plain = data[:MAX_BYTES].decode("utf-8", "backslashreplace").split("\n") if data else []
    for depth, parts in _json_lines(text) if is_json else ((0, [line]) for line in plain):
        margin = f"{label:>8}  {'  ' * min(depth, _MAX_INDENT)}"
        key = f"{parts[0][0]}: " if len(parts) > 2 else ""
        yield Line([(margin, "dim"), *parts], "wrap", len(f"{margin}{key}"))
        label = ""
    if len(text) > MAX_BYTES:
        yield Line([f"{'':>8}  ", (f"… {format_size(len(data))} in total; --json prints all of it", "dim")])


def _json_lines(text: str) -> Iterator[tuple[int, list[Part]]]:
    """Yield the depth and the parts of a line for each key and each item; an empty object or array stays in its line.

    Numbers and repeated keys stay as they are; strings are shown without their escapes.
    """
    depth, line, is_opened = 0, list[Part](), False
    for match in _TOKEN.finditer(text):
        if match.start() >= MAX_BYTES:
            break
        sign = match["sign"] or ""
        closes = sign != "" and sign in _CLOSING
        if is_opened != closes:
            yield depth, line
            depth, line = depth + (-1 if closes else 1), []
        if sign == ":":
            line[-1] = (line[-1][0], "key")
        line.append((": " if sign == ":" else sign) if sign else _json_value(match))
        if sign == ",":
            yield depth, line
            line = []
        is_opened = sign != "" and sign in _OPENING
    yield depth, line


def _json_value(match: re.Match[str]) -> tuple[str, str]:
    token = match.group()
    if match["string"] is None:
        return token, "number"
    text = json.loads(token, strict=False).replace("\\", "\\\\").replace('"', '\\"')
    room = max(MAX_BYTES - match.start(), 80)
    return (f'"{text}"' if len(text) <= room else f'"{text[:room]}…'), "string"
