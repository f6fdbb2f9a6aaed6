"""REC: where the recording itself falls short.  Never an error of either side."""

from wiretape.observations import Ending
from wiretape.rules.catalogue import (
    EXCHANGE_END,
    HELD,
    MESSAGE,
    Basis,
    Outcome,
    Problem,
    Scope,
    problem,
    rule,
)
from wiretape.rules.doubts import STILL_OPEN
from wiretape.rules.finding import Party, Place, Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.state import ExchangeState, Stream
from wiretape.rules.words import number
from wiretape.safe_text import printable


@rule(
    "REC001",
    "capture-incomplete",
    at=EXCHANGE_END,
    severity=Severity.WARNING,
    side=Party.RECORDING,
    scope=Scope.RECORDING,
    basis=Basis.INFERRED,
    clause='About the recording: "bytes passed that were not recorded"',
)
def capture_incomplete(exchange: ExchangeState, ending: Ending) -> Outcome:
    """Bytes of a request or a response passed without being recorded.  One finding for each of the two."""
    if not exchange.lost:
        # Of one that is open when the recording ends nobody knows what passed afterwards.
        return STILL_OPEN if ending is Ending.OPEN else HELD
    return [
        Problem(
            f"Expected every byte of the {side} to be recorded, got {lost.count} fewer, "
            f"from byte {lost.start} on ({printable(lost.why[:100])}).",
            Place(exchange.number, lost.time_ns, byte_offset=lost.start),
        )
        for side, lost in exchange.lost.items()
    ]


@rule(
    "REC002",
    "capture-began-mid-session",
    at=MESSAGE,
    shapes=frozenset({Shape.DURABLE}),
    severity=Severity.NOTE,
    side=Party.RECORDING,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause='Durable event, sequence: "Order number of the durable event."',
)
def capture_began_mid_session(message: Message, stream: Stream) -> Outcome:
    """The first durable event seen of a session is not its first, or the connection was opened with a cursor."""
    past = stream.session.past
    if past.first_message is not message or past.returned:
        return None
    if stream.course.cursor is not None:
        return problem("Expected the session from its first event on, got a connection opened with a cursor.")
    if past.begun_late:
        return problem(
            f"Expected the session from its first event on, got sequence {number(message.sequence or 0)} first."
        )
    return HELD
