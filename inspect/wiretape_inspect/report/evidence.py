"""What was on the wire at the place of a finding, cut to a few lines."""

import re
from dataclasses import dataclass

from wiretape.content_encoding import DecodingError, decoder
from wiretape.contract import CURSOR_HEADER, RETRY_AFTER
from wiretape.event_facts import facts_of
from wiretape.frame_reader import SeenFrame
from wiretape.observations import BytesArrived, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import printable
from wiretape_inspect.humanize import digits, duration
from wiretape_inspect.report.places import Placed

_LINES = 6
ROOM = 109
"""How many characters of a line are shown where nobody says: so many fit beside the margin into 120 columns."""
_BODY = 240
_LINE_END = re.compile(r"\r\n|\r|\n")
_ASKED = ("Authorization", CURSOR_HEADER)
_HEADERS = ("Content-Type", "Content-Encoding", RETRY_AFTER)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Lines that show a place, each as a mark for the margin and a text.  All of it is safe to print."""

    end: int | None
    """The offset just after the message, when the place is one."""
    lines: list[tuple[str, str]]

    def span(self, offset: int) -> str:
        """Which bytes a message is that begins at `offset`."""
        return f"from byte {offset}" if self.end is None else f"bytes {offset}-{self.end}"


NOTHING = Evidence(None, [])
"""Where a finding points at nothing that was recorded."""


def evidence(recording: Recording, place: Placed, room: int = ROOM) -> Evidence:
    """What is at the place of a finding, in lines of at most `room` characters."""
    if place.here is not None:
        return _of_message(place.here.seen, place.before.seen if place.before is not None else None, room)
    if place.finding.event is None and place.finding.byte_offset is None:
        return _of_answer(recording, place.exchange, room)
    return NOTHING


def _of_message(seen: SeenFrame, before: SeenFrame | None, room: int) -> Evidence:
    """A message, and a line about the one before it."""
    lines = [] if before is None else [_neighbour(before, seen, room)]
    margin = "" if seen.event is None else str(seen.event)
    lines += zip([margin] + [""] * _LINES, _excerpt(seen.frame.raw, room), strict=False)
    return Evidence(seen.frame.end, lines)


def _neighbour(before: SeenFrame, seen: SeenFrame, room: int) -> tuple[str, str]:
    facts = facts_of(before.frame)
    parts = [facts.type or "(no type)"]
    parts += [f"id {facts.id}"] if facts.id is not None else []
    parts += [f"sequence {digits(facts.sequence)}"] if facts.sequence is not None else []
    said = f"({' · '.join(parts)}, {duration(seen.time_ns - before.time_ns)} before)"
    return str(before.event), _short(said, room)


def _excerpt(raw: bytes, room: int) -> list[str]:
    """The lines of a message, as many and as long as there is room for; bytes that are no UTF-8 with their values."""
    most = 4 * room * _LINES
    lines = _LINE_END.split(raw[:most].decode("utf-8", "backslashreplace").rstrip("\r\n"))
    shown = [_short(line, room) for line in lines[:_LINES]]
    return [*shown, "…"] if len(lines) > _LINES or (len(raw) > most and len(shown) == _LINES) else shown


def _of_answer(recording: Recording, exchange: Exchange, room: int) -> Evidence:
    """The head of a response, and the beginning of a body that is no stream."""
    response = exchange.response
    if response is None:
        return Evidence(None, [])
    lines = [("<", f"{response.status} {response.reason}".rstrip())]
    lines += [("<", f"{name}: {value}") for name in _HEADERS if (value := header(response.headers, name)) is not None]
    if not exchange.is_stream:
        lines += [("", line) for line in _excerpt(beginning(recording, exchange, _BODY + 1), room)]
    return Evidence(None, [(mark, _short(line, room)) for mark, line in lines])


def beginning(recording: Recording, exchange: Exchange, most: int) -> bytes:
    """The first `most` bytes of a response body, decoded as far as that goes."""
    body = b""
    try:
        coding = decoder(exchange.content_encoding)
        for run in recording.body(exchange.number, Side.RESPONSE):
            if not isinstance(run, BytesArrived):
                break
            body += coding.feed(run.data[:most])
            if len(run.data) > most or len(body) > most:
                break
    except DecodingError:
        pass
    return body[:most]


def asked(exchange: Exchange, room: int = ROOM) -> list[str]:
    """The headers of a request that clients are judged by, safe to print."""
    headers = exchange.request.headers
    found = [(name, header(headers, name)) for name in _ASKED]
    return [_short(f"{name}: {value}", room) for name, value in found if value is not None]


def _short(line: str, room: int) -> str:
    shown = printable(line[: room + 1])
    return shown if len(shown) <= room else f"{shown[: room - 1]}…"
