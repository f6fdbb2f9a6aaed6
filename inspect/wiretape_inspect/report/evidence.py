"""What was on the wire at the location of a finding: a few lines of it, and what in them the finding is about."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec

from wiretape.content_encoding import decode_beginning
from wiretape.event import Event, TimedFrame
from wiretape.http_headers import LAST_EVENT_ID, RETRY_AFTER
from wiretape.observations import Headers, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.rules import Party
from wiretape.safe_text import printable
from wiretape.units import format_duration, format_integer
from wiretape_inspect.report.finding_location import LocatedFinding
from wiretape_inspect.timeline_text import bytes_before_loss

MAX_BYTES = 1024
"""Bytes of a frame that are kept."""
WIDTH = 1000
"""Characters of a line of evidence; the page folds long lines, and the text cuts them."""
_MAX_LINES = 6
_MAX_BODY = 240
_LINE_END = re.compile(r"\r\n|\r|\n")
_REQUEST_HEADERS = ("Authorization", LAST_EVENT_ID)
_RESPONSE_HEADERS = ("Content-Type", "Content-Encoding", RETRY_AFTER)
_SENTENCE = re.compile(r"Expected ((?:`[^`]*`|[^`])*?), got (.*)\.", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

EvidenceLine = tuple[str, str]
"""A mark for the margin, and a line that is safe to print."""


def evidence(recording: Recording, located: LocatedFinding) -> list[EvidenceLine]:
    """Return the lines that show the location of a finding."""
    if located.frame is not None:
        return _frame_evidence(located.frame.seen, located.before)
    if located.finding.event is None and located.finding.byte_offset is None:
        return _response_evidence(recording, located.exchange)
    return []


def _frame_evidence(seen: TimedFrame, before: Event | None) -> list[EvidenceLine]:
    """The lines of a frame, after one line about the previous event."""
    lines = [] if before is None else [_previous_event(before, seen)]
    mark = str(seen.number) if isinstance(seen, Event) else ""
    lines += zip([mark] + [""] * _MAX_LINES, _excerpt(seen.frame.raw), strict=False)
    return lines


def _previous_event(before: Event, seen: TimedFrame) -> EvidenceLine:
    parts = [before.type or "(no type)"]
    parts += [f"id {before.id}"] if before.id is not None else []
    parts += [f"sequence {format_integer(before.sequence)}"] if before.sequence is not None else []
    text = f"({' · '.join(parts)}, {format_duration(seen.time_ns - before.time_ns)} before)"
    return str(before.number), shorten_line(text)


def _excerpt(raw: bytes) -> list[str]:
    """Return the first lines of bytes; bytes that are not UTF-8 become escapes."""
    most = 4 * WIDTH * _MAX_LINES
    lines = _LINE_END.split(raw[:most].decode("utf-8", "backslashreplace").rstrip("\r\n"))
    shown = [shorten_line(line) for line in lines[:_MAX_LINES]]
    return [*shown, "…"] if len(lines) > _MAX_LINES or (len(raw) > most and len(shown) == _MAX_LINES) else shown


def _response_evidence(recording: Recording, exchange: Exchange) -> list[EvidenceLine]:
    """The head of a response, and the beginning of a body that is not a stream."""
    response = exchange.response
    if response is None:
        return []
    lines = [("<", shorten_line(f"{response.status} {response.reason}".rstrip()))]
    lines += [("<", line) for line in _header_lines(response.headers, _RESPONSE_HEADERS)]
    if not exchange.is_stream:
        lines += [("", line) for line in _excerpt(_body_beginning(recording, exchange, _MAX_BODY + 1))]
    return lines


def _body_beginning(recording: Recording, exchange: Exchange, size: int) -> bytes:
    """Return the first `size` bytes of a response body, decoded as far as possible."""
    parts = bytes_before_loss(recording.body(exchange.number, Side.RESPONSE))
    return decode_beginning(exchange.content_encoding, parts, size)[0]


def request_headers(located: LocatedFinding) -> list[str]:
    """Return the request headers that rules about clients depend on, safe to print; none if the client broke none."""
    headers = located.exchange.request.headers
    return _header_lines(headers, _REQUEST_HEADERS) if located.finding.side is Party.CLIENT else []


def _header_lines(headers: Headers, names: Iterable[str]) -> list[str]:
    found = [(name, header(headers, name)) for name in names]
    return [shorten_line(f"{name}: {value}") for name, value in found if value is not None]


def shorten_line(line: str, width: int = WIDTH) -> str:
    """Make a line safe to print, and cut it to `width` characters."""
    shown = printable(line[: width + 1])
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def bytes_at(recording: Recording, located: LocatedFinding) -> bytes | None:
    """Return the first `MAX_BYTES` bytes of the frame of a finding, or of a response that is not a stream.

    None if the finding is about neither.
    """
    if located.frame is not None:
        return located.frame.seen.frame.raw[:MAX_BYTES]
    exchange = located.exchange
    if located.finding.byte_offset is not None or exchange.is_stream or not exchange.response_bytes:
        return None
    return _body_beginning(recording, exchange, MAX_BYTES)


@dataclass(frozen=True, slots=True)
class Mark:
    """The characters of a line of evidence that a finding is about."""

    line: int
    begin: int
    end: int


def evidence_document(recording: Recording, located: LocatedFinding) -> dict[str, Any]:
    """Return a finding with its evidence as JSON for the page.

    Besides the fields of the finding: `expected` and `actual` (null if the message has no such parts), `request`,
    `request_headers` if the client broke the rule, `end` (offset after the frame), `evidence` (`[[margin, line]]`) and
    `offending` (a `Mark` in these lines, or null).
    """
    finding, request = located.finding, located.exchange.request
    lines = evidence(recording, located)
    expected, actual = split_message(finding.message) or (None, None)
    return {
        **msgspec.to_builtins(finding),
        "expected": expected,
        "actual": actual,
        "request": f"{request.method} {request.target}",
        "request_headers": request_headers(located),
        "end": located.frame.seen.frame.end if located.frame is not None else None,
        "evidence": lines,
        "offending": mark_offending(located, lines),
    }


def mark_offending(located: LocatedFinding, lines: Sequence[EvidenceLine]) -> Mark | None:
    """Return what a finding is about in the lines of its evidence; None if they do not show it."""
    # The first line is about the previous event, if there is one.
    first = 0 if located.before is None else 1
    mark = find_offending(located.finding.message, [text for _, text in lines[first:]])
    return None if mark is None else replace(mark, line=mark.line + first)


def find_offending(message: str, lines: Sequence[str]) -> Mark | None:
    """Return where lines of a frame or a body show what a message is about; None if they do not.

    That is the actual value, or else the expected one.
    """
    expected, actual = split_message(message) or ("", message)
    names = [name for name in re.findall(r"\w+", message) if not name.isdigit()]
    for value in (*_values(actual), *_values(expected)):
        for number, line in enumerate(lines):
            begin = _index_of(value, line, names)
            if begin >= 0:
                return Mark(number, begin, begin + len(value))
    return None


# A recording with many findings has few different messages.
@lru_cache(4096)
def split_message(message: str) -> tuple[str, str] | None:
    """Split the message of a finding into what was expected and what was found; None if it has another form."""
    match = _SENTENCE.fullmatch(message)
    return (match[1], match[2]) if match else None


def _values(text: str) -> Iterator[str]:
    """Yield what a part of a message quotes or names: texts in backticks, then types of events, then numbers."""
    yield from re.findall(r"`([^`]+)`", text)
    yield from re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+\b", text)
    yield from re.findall(rf"(?<![\w.`-]){_NUMBER.pattern}(?![\w.`])", text)


def _index_of(value: str, line: str, names: Iterable[str]) -> int:
    """Return where a line has a value, or -1; a number only as the value of a key or field that the message names."""
    if _NUMBER.fullmatch(value) is None:
        return line.find(value)
    if "status" in names and re.match(rf"{re.escape(value)}(?: |$)", line):
        return 0
    found = (re.search(rf'\b{re.escape(name)}"?: ?({re.escape(value)})(?![\d.])', line) for name in names)
    return next((match.start(1) for match in found if match is not None), -1)
