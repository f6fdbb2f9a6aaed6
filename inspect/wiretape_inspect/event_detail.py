"""One event of a stream, looked at closely: its bytes, fields, times and findings, and what is around it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from wiretape.errors import InputError
from wiretape.event_facts import facts_of
from wiretape.frame_reader import SeenFrame
from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape.safe_text import printable
from wiretape.sse import FrameKind
from wiretape_inspect import payload, state_view, timeline_text
from wiretape_inspect.humanize import amount, count, moment
from wiretape_inspect.spans import Span
from wiretape_inspect.state_view import fact
from wiretape_inspect.view.state_at_event import State
from wiretape_inspect.view.timeline_rows import EventRow

SIZE = 4096
"""How many bytes of an event are shown."""
Chunk = tuple[int, int, int]
"""Where a chunk begins and ends in the body as it came, and when it came (ns)."""
_PLACE = re.compile(r"(\d{1,18}):(\d{1,18})")
_ROW = 16
_BLANK: list[Span] = [("", "")]


@dataclass(frozen=True, slots=True)
class Around:
    """An event, and its neighbours on the same connection."""

    seen: SeenFrame
    before: SeenFrame | None
    earlier_ns: int | None
    """When the message before `before` came, or the response began."""
    after: SeenFrame | None


def parsed(place: str, form: str = "EXCHANGE:EVENT, like 2:57") -> tuple[int, int]:
    """`2:57` as the numbers of an exchange and of an event, or what else `form` says.  Raises InputError."""
    match = _PLACE.fullmatch(place.strip())
    if match is None:
        raise InputError(f"{printable(place)!r} is no place: write {form}.")
    return int(match[1]), int(match[2])


def find(recording: Recording, exchange: Exchange, event: int) -> Around:
    """The event of this number.  Raises InputError saying how many there are when there is none."""
    if not exchange.is_stream:
        raise InputError(
            f"Exchange {exchange.number} is no event stream, so it has no event {event}; "
            f"look at it with --exchange {exchange.number}."
        )
    before = earlier = None
    messages = (seen for seen in recording.frames(exchange.number, event - 2) if seen.event is not None)
    for seen in messages:
        if seen.event == event:
            return Around(seen, before, earlier.time_ns if earlier else None, next(messages, None))
        before, earlier = seen, before
    number = max((seen.event or 0 for seen in recording.frames(exchange.number)), default=0)
    there = f"they go from 1 to {number}" if number else "it has none"
    raise InputError(f"Exchange {exchange.number} has no event {event}: {there}.")


def find_cut(recording: Recording, exchange: Exchange, start: int, event: int = 1) -> SeenFrame:
    """The bytes of a message that was cut off, which begin at offset `start`, not before message number `event`.

    Raises InputError where there are none.
    """
    for seen in recording.frames(exchange.number, event):
        if seen.frame.start >= start:
            if (seen.frame.kind, seen.frame.start) == (FrameKind.TAIL, start):
                return seen
            break
    raise InputError(f"Exchange {exchange.number} has no message that begins at byte {start} and was cut off.")


def spans(
    recording: Recording, exchange: Exchange, around: Around, findings: Sequence[Finding], state: State
) -> Iterator[list[Span]]:
    """The lines about an event; `findings` are those of its exchange, `state` is the one just after it."""
    seen = around.seen
    began = exchange.response.time_ns if exchange.response else exchange.request.time_ns
    yield timeline_text.head(exchange)
    yield timeline_text.columns()
    if around.before is not None:
        yield timeline_text.stream(row(around.before, around.earlier_ns or began))
    yield _marked(timeline_text.stream(row(seen, around.before.time_ns if around.before else began)))
    here = [found for found in findings if found.event == seen.event]
    yield from timeline_text.findings(here)
    if around.after is not None:
        yield timeline_text.stream(row(around.after, seen.time_ns))
    yield _BLANK
    yield from _facts(recording, exchange, seen)
    yield from payload.lines(seen.frame.data)
    yield _BLANK
    yield from state_view.state(state)
    yield _BLANK
    yield from _hex(seen.frame.raw, seen.frame.start)


def _marked(spans: list[Span]) -> list[Span]:
    """The row that the question is about, with a mark."""
    text, _ = spans[0]
    return [(f"▶{text[1:]}", ""), *spans[1:]]


def row(seen: SeenFrame, since_ns: int) -> EventRow:
    """A message as a row; `since_ns` is when the one before came."""
    facts = facts_of(seen.frame)
    return replace(EventRow.of(seen, facts, seen.time_ns - since_ns), preview=facts.text)


def _facts(recording: Recording, exchange: Exchange, seen: SeenFrame) -> Iterator[list[Span]]:
    frame = seen.frame
    yield fact("bytes", f"{frame.start}-{frame.end} of the decoded body, {amount(len(frame.raw))}")
    yield fact("time", f"{moment(seen.time_ns)} ({seen.time_ns:,} ns since the recording began)")
    if exchange.content_encoding is None:
        yield fact("chunks", _chunks(recording, exchange, frame.start, frame.end))
    else:
        yield fact("chunks", f"not told for a body that came encoded ({exchange.content_encoding})")
    cursor = frame.last_event_id.decode("utf-8", "replace")
    yield fact("cursor", f"{cursor} after this event" if cursor else "none after this event")
    for name, value in islice(((name, value) for name, value in frame.fields if name != b"data"), 50):
        yield fact("field", f"{_shown(name)}: {_shown(value)}")


def _shown(value: bytes) -> str:
    cut = value[:SIZE].decode("utf-8", "backslashreplace")
    return cut if len(value) <= SIZE else f"{cut}… ({amount(len(value))})"


def chunks(recording: Recording, exchange: Exchange, start: int, end: int) -> Iterator[Chunk]:
    """The chunks in which the bytes from `start` to `end` came: their offsets in the body as it came, and when."""
    for part in recording.body(exchange.number, Side.RESPONSE, start):
        if not isinstance(part, BytesArrived) or part.end <= start:
            continue
        if part.start >= end:
            break
        yield from (chunk for chunk in chunks_in(part) if chunk[0] < end and chunk[1] > start)


def chunks_in(run: BytesArrived) -> Iterator[Chunk]:
    """The chunks of a run."""
    at = run.start
    for end, time_ns in zip(run.ends, run.times, strict=True):
        yield at, end, time_ns
        at = end


def _chunks(recording: Recording, exchange: Exchange, start: int, end: int) -> str:
    """In which chunks the bytes from `start` to `end` came, and when."""
    found = chunks(recording, exchange, start, end)
    pieces = [f"{begin}-{until} at {moment(time_ns)}" for begin, until, time_ns in found]
    shown = ", ".join(pieces[:4]) + (f" … {pieces[-1]}" if len(pieces) > 4 else "")
    return f"{count(len(pieces), 'chunk')}: {shown}"


def _hex(raw: bytes, start: int) -> Iterator[list[Span]]:
    """The bytes in hexadecimal and as text, sixteen a line, with their offsets."""
    for at in range(0, min(len(raw), SIZE), _ROW):
        part = raw[at : at + _ROW]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        yield [(f"{start + at:>8}  ", "dim"), (f"{part.hex(' '):<{3 * _ROW}}", "finding"), (f" {shown}", "dim")]
    if len(raw) > SIZE:
        yield [(f"{start + SIZE:>8}  ", "dim"), (f"… and {amount(len(raw) - SIZE)} more; --json has them all", "dim")]
