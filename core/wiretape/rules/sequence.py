"""SEQ: the order of durable events.  Deltas take no part in it, nor do values of a wrong type."""

from wiretape.rules.catalogue import HELD, MESSAGE, Basis, Outcome, Scope, problem, rule
from wiretape.rules.doubts import FORGOTTEN, UNSEEN
from wiretape.rules.finding import Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.state import Stream
from wiretape.rules.words import number, quoted

_DURABLE = frozenset({Shape.DURABLE})
_ORDER_NUMBER = 'Durable event, sequence: "Order number of the durable event."'


@rule(
    "SEQ001",
    "sequence-not-increasing",
    at=MESSAGE,
    shapes=_DURABLE,
    scope=Scope.STREAM,
    clause=_ORDER_NUMBER,
)
def sequence_not_increasing(message: Message, stream: Stream) -> Outcome:
    """The sequence of a durable event is not above that of the one before it on the same connection."""
    before, sequence = stream.sequence, message.sequence
    if before is None or sequence is None:
        return None
    if sequence > before:
        return UNSEEN if stream.gap else HELD
    return problem(f"Expected a sequence above {number(before)}, got {number(sequence)}.")


@rule(
    "SEQ002",
    "sequence-reused",
    at=MESSAGE,
    shapes=_DURABLE,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause=_ORDER_NUMBER,
)
def sequence_reused(message: Message, stream: Stream) -> Outcome:
    """Two different ids of one session carry the same sequence."""
    sequence, identity = message.sequence, message.id
    if sequence is None or identity is None:
        return None
    log = stream.session.past.log
    owner = log.owners.get(sequence, identity)
    if owner == identity:
        return HELD if log.floor is None or sequence > log.floor else FORGOTTEN
    if identity in log.intruders.get(sequence, ()):
        # It was found before, and is replayed here.
        return None
    return problem(
        f"Expected sequence {number(sequence)} to be that of {quoted(owner)} only, got it with {quoted(identity)}."
    )


@rule(
    "SEQ003",
    "id-reused",
    at=MESSAGE,
    shapes=_DURABLE,
    scope=Scope.STREAM,
    basis=Basis.INFERRED,
    clause='Durable event, id: "Used as the replay cursor."',
)
def id_reused(message: Message, stream: Stream) -> Outcome:
    """The same id comes twice on one connection."""
    identity = message.id
    if identity is None or not stream.events:
        return None
    if identity not in stream.events:
        return FORGOTTEN if stream.events_forgotten else HELD
    return problem(f"Expected a new id, got {quoted(identity)}, which event {stream.events[identity]} has already.")


@rule(
    "SEQ004",
    "sequence-gap",
    at=MESSAGE,
    shapes=_DURABLE,
    severity=Severity.NOTE,
    scope=Scope.STREAM,
    basis=Basis.INFERRED,
    clause=_ORDER_NUMBER,
)
def sequence_gap(message: Message, stream: Stream) -> Outcome:
    """The sequence jumps by more than one, which the specification does not forbid."""
    before, sequence = stream.sequence, message.sequence
    if before is None or sequence is None or stream.out_of_step:
        # Out of step, a jump would follow from what was found (or could not be read) before.
        return None
    if sequence <= before + 1:
        return HELD
    resumption = stream.course.resumption
    if resumption is not None and resumption.skips(sequence):
        # What was not replayed is RES002.
        return None
    if stream.gap:
        return UNSEEN
    return problem(f"Expected sequence {number(before + 1)} after {number(before)}, got {number(sequence)}.")


@rule(
    "SEQ005",
    "created-at-going-back",
    at=MESSAGE,
    shapes=_DURABLE,
    severity=Severity.NOTE,
    scope=Scope.STREAM,
    basis=Basis.INFERRED,
    clause='Durable event, created_at: "ISO 8601 UTC timestamp."',
)
def created_at_going_back(message: Message, stream: Stream) -> Outcome:
    """`created_at` is earlier than that of the durable event before it on the same connection."""
    before, created_at = stream.created_at, message.created_at
    if before is None or created_at is None:
        return None
    if created_at >= before:
        return UNSEEN if stream.gap else HELD
    return problem(f"Expected a created_at not before {before.isoformat()}, got {created_at.isoformat()}.")
