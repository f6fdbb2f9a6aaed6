"""The export format `events`, a JSON object for each exchange and each event, and an event as a pytest test."""

from collections.abc import Iterable, Iterator
from typing import Any

from wiretape.checking import check_stream
from wiretape.content_encoding import decode_beginning
from wiretape.errors import InputError
from wiretape.event import Event, TimedFrame
from wiretape.json_codec import dump_json
from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import printable
from wiretape.sse import FrameKind
from wiretape_inspect.timeline_json import content, exchange_document

BODY_LIMIT = 16 * 1024 * 1024
"""Decoded bytes of a body that a line may contain, unless it is a stream."""
_TEST_BYTES = 64 * 1024
"""Bytes of a test.  A test that needs more is easier to write with the whole recording."""
_OMITTED = frozenset({FrameKind.BLANK, FrameKind.BOM})


def event_lines(recording: Recording, exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Return a line for each exchange, followed by one for each event and comment of a stream."""
    for exchange in exchanges:
        line = {"kind": "exchange", **exchange_document(exchange, exchange.vocabulary)}
        line["time"] = recording.info.iso_time(exchange.request.time_ns)
        if not exchange.is_stream:
            line["request_body"] = _body(recording, exchange, Side.REQUEST)
            line["response_body"] = _body(recording, exchange, Side.RESPONSE)
        yield dump_json(line)
        if exchange.is_stream:
            yield from map(dump_json, _frames(recording, exchange))


def _frames(recording: Recording, exchange: Exchange) -> Iterator[dict[str, Any]]:
    reader = exchange.make_reader()
    frames = reader.read(recording.body(exchange.number, Side.RESPONSE))
    yield from (_frame(recording, exchange, seen) for seen in frames if seen.frame.kind not in _OMITTED)
    if reader.undecodable is not None:
        yield {"kind": "undecodable", "exchange": exchange.number, "text": reader.undecodable}


def _frame(recording: Recording, exchange: Exchange, seen: TimedFrame) -> dict[str, Any]:
    frame = seen.frame
    event = seen if isinstance(seen, Event) else None
    return {
        "kind": event.kind if event else frame.kind,
        "exchange": exchange.number,
        "event": event.number if event else None,
        "time_ns": seen.time_ns,
        "time": recording.info.iso_time(seen.time_ns),
        "id": event.id if event else None,
        "name": event.name if event else None,
        "sequence": event.sequence if event else None,
        "start": frame.start,
        "end": frame.end,
        **(content(event.data) if event else content(frame.raw, parse=False)),
    }


def bodies(recording: Recording, exchange: Exchange) -> dict[str, dict[str, Any] | None]:
    """Return the bodies of `request` and `response` as `text` or `base64`; None for an empty body.

    The body of a stream is None too: it has rows instead.
    """
    return {
        "request": _body(recording, exchange, Side.REQUEST, parse=False),
        "response": None if exchange.is_stream else _body(recording, exchange, Side.RESPONSE, parse=False),
    }


def _body(recording: Recording, exchange: Exchange, side: Side, *, parse: bool = True) -> dict[str, Any] | None:
    """Return a whole body, decoded if that is possible; None if it is empty."""
    if not (exchange.request_bytes if side is Side.REQUEST else exchange.response_bytes):
        return None
    data = b"".join(part.data for part in recording.body(exchange.number, side) if isinstance(part, BytesArrived))
    decoded, problem = decode_beginning(exchange.encoding_of(side), [data], BODY_LIMIT + 1)
    if problem:
        return {**content(data, parse=False), "encoded": True}
    if len(decoded) > BODY_LIMIT:
        return {"omitted": f"more than {BODY_LIMIT} bytes"}
    return content(decoded, parse=parse)


def event_as_test(recording: Recording, exchange: Exchange, event: int) -> str:
    """Return the code of a test that passes for the bytes of an event.

    Earlier events are included if the findings about the event depend on them.
    Raises InputError if the event does not exist or is too large.
    """
    wanted = {finding.code for finding in recording.findings(exchange.number) if finding.event == event}
    frames: list[bytes] = []
    codes: list[str] = []
    for first in dict.fromkeys((event, max(event - 1, 1), 1)):
        found = list(_raw_frames(recording, exchange.number, first, event))
        if sum(map(len, found)) > _TEST_BYTES:
            break
        frames, target = found, exchange.request.target
        codes = [finding.code for finding in check_stream(b"".join(frames), target=target).findings]
        if wanted <= set(codes):
            break
    if not frames:
        raise InputError(f"Event {event} of exchange {exchange.number} is too large for a test.")
    surplus = ", ".join(dict.fromkeys(code for code in codes if code not in wanted))
    note = f"# Without the rest of its stream, the rules also find {surplus}.\n" if surplus else ""
    lines = "\n".join(f"    {frame!r}" for frame in frames)
    return (
        f"# Event {event} of exchange {exchange.number} in {printable(recording.path.name)}.\n"
        f"{note}\n"
        "import wiretape\n\n"
        f"BODY = (\n{lines}\n)\n\n\n"
        f"def test_event_{event}_of_exchange_{exchange.number}() -> None:\n"
        f"    result = wiretape.check_stream(BODY, target={exchange.request.target!r})\n"
        f"    assert [finding.code for finding in result.findings] == {codes!r}\n"
    )


def _raw_frames(recording: Recording, number: int, first: int, last: int) -> Iterator[bytes]:
    """Yield the bytes of the frames of a stream from one event to another."""
    for seen in recording.frames(number, first):
        yield seen.frame.raw
        if isinstance(seen, Event) and seen.number == last:
            return
    raise InputError(f"Exchange {number} has no event {last}.")
