"""What was on the wire at the place of a finding, cut to a few lines."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wiretape.contract import CURSOR_HEADER, RETRY_AFTER
from wiretape.encoding import DecodingError, decoder
from wiretape.observe import BytesArrived, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape.stream import SeenFrame
from wiretape.text import printable
from wiretape_inspect.facts import facts_of
from wiretape_inspect.words import digits, duration

_LINES = 6
_WIDTH = 110
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


Spot = tuple[int, int | None, int | None]
"""Exchange, event number and offset in the body."""


def spot(finding: Finding) -> Spot:
    """The place of a finding, as evidence is looked up by."""
    return finding.exchange, finding.event, finding.byte_offset


def gather(recording: Recording, findings: Iterable[Finding]) -> dict[Spot, Evidence]:
    """The evidence for each place that `findings` name; every stream is read once, as far as needed."""
    spots = {spot(finding) for finding in findings}
    gathered: dict[Spot, Evidence] = {}
    for number in sorted({exchange for exchange, _, _ in spots}):
        exchange = recording.exchange(number)
        offsets = {offset for at, _, offset in spots if at == number and offset is not None}
        if offsets:
            gathered |= _of_messages(recording, number, offsets)
        if (number, None, None) in spots:
            gathered[number, None, None] = _of_answer(recording, exchange)
    return gathered


def _of_messages(recording: Recording, number: int, offsets: set[int]) -> dict[Spot, Evidence]:
    """The messages that begin at `offsets`, each with the one before it."""
    found: dict[Spot, Evidence] = {}
    before: SeenFrame | None = None
    for seen in recording.frames(number):
        frame = seen.frame
        if frame.start in offsets:
            lines = [] if before is None else [_neighbour(before, seen)]
            margin = "" if seen.event is None else str(seen.event)
            lines += zip([margin] + [""] * _LINES, _excerpt(frame.raw), strict=False)
            found[number, seen.event, frame.start] = Evidence(frame.end, lines)
            if len(found) == len(offsets):
                break
        if seen.event is not None:
            before = seen
    return found


def _neighbour(before: SeenFrame, seen: SeenFrame) -> tuple[str, str]:
    facts = facts_of(before.frame)
    parts = [facts.type or "(no type)"]
    parts += [f"id {facts.id}"] if facts.id is not None else []
    parts += [f"sequence {digits(facts.sequence)}"] if facts.sequence is not None else []
    return str(before.event), _short(f"({' · '.join(parts)}, {duration(seen.time_ns - before.time_ns)} before)")


def _excerpt(raw: bytes) -> list[str]:
    """The lines of a message, as many and as long as there is room for; bytes that are no UTF-8 with their values."""
    room = 4 * _WIDTH * _LINES
    lines = _LINE_END.split(raw[:room].decode("utf-8", "backslashreplace").rstrip("\r\n"))
    shown = [_short(line) for line in lines[:_LINES]]
    return [*shown, "…"] if len(lines) > _LINES or (len(raw) > room and len(shown) == _LINES) else shown


def _of_answer(recording: Recording, exchange: Exchange) -> Evidence:
    """The head of a response, and the beginning of a body that is no stream."""
    response = exchange.response
    if response is None:
        return Evidence(None, [])
    lines = [("<", f"{response.status} {response.reason}".rstrip())]
    lines += [("<", f"{name}: {value}") for name in _HEADERS if (value := header(response.headers, name)) is not None]
    if not exchange.is_stream:
        lines += [("", line) for line in _excerpt(beginning(recording, exchange, _BODY + 1))]
    return Evidence(None, [(mark, _short(line)) for mark, line in lines])


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


def asked(exchange: Exchange) -> list[str]:
    """The headers of a request that clients are judged by, safe to print."""
    headers = exchange.request.headers
    found = [(name, header(headers, name)) for name in _ASKED]
    return [_short(f"{name}: {value}") for name, value in found if value is not None]


def _short(line: str) -> str:
    shown = printable(line[: _WIDTH + 1])
    return shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 1]}…"
