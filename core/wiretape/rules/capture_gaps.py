"""REC: gaps in the recording itself, for which neither side is responsible."""

from wiretape.labels import count_of
from wiretape.observations import Ending, Side
from wiretape.rules.catalogue import (
    EXCHANGE_END,
    HELD,
    OPEN_EXCHANGE,
    Outcome,
    Problem,
    check,
)
from wiretape.rules.exchange import Exchange
from wiretape.rules.finding import Location
from wiretape.safe_text import printable
from wiretape.sse import DEFAULT_LIMIT


@check(EXCHANGE_END)
def capture_incomplete(exchange: Exchange, ending: Ending) -> Outcome:
    """Some bytes of a request or a response are missing from the recording.

    There is one finding for each request or response that lacks bytes.
    """
    if not exchange.lost:
        # What follows in an exchange that is open at the end of the recording is unknown.
        return OPEN_EXCHANGE if ending is Ending.OPEN else HELD
    return [
        Problem(
            f"Expected a recording of the whole {side}, got one that lacks {count_of(lost.count, 'byte')}, "
            f"from byte {lost.start} on ({printable(lost.why[:100])}).",
            Location(exchange.number, lost.time_ns, byte_offset=lost.start),
        )
        for side, lost in exchange.lost.items()
    ]


@check(EXCHANGE_END)
def stream_not_checked(exchange: Exchange, ending: Ending) -> Outcome:
    """Part of a stream was not checked, because an event is too large or the stream cannot be decoded."""
    stream = exchange.stream
    if stream is None:
        return None
    limit = f"{DEFAULT_LIMIT >> 20} MiB"
    problems = [Problem(f"Expected events of at most {limit}, got a larger one.", where) for where in stream.oversized]
    undecodable = stream.undecodable
    if undecodable is not None and Side.RESPONSE in exchange.lost:
        return problems or None  # lost bytes are REC001
    if undecodable is not None:
        reason = printable(undecodable.reason[:100])
        message = f"Expected a stream that can be decoded, got one that cannot be decoded completely: {reason}."
        problems.append(Problem(message, Location(exchange.number, undecodable.time_ns)))
    if problems:
        return problems
    return OPEN_EXCHANGE if ending is Ending.OPEN else HELD
