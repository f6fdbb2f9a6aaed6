"""CLI: what the client owes with its cursor.  Who is one client is said in `wiretape.rules.clients`."""

from wiretape.contract import CURSOR_HEADER, INVALID_CURSOR, STREAM_RESYNC
from wiretape.observe import Ending
from wiretape.rules.catalogue import HELD, INCONCLUSIVE, MESSAGE, REQUEST, Later, Outcome, Scope, problem, rule
from wiretape.rules.conduct import is_stream_request
from wiretape.rules.finding import Party, Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.readers import RECONNECT_NS, Resync
from wiretape.rules.state import ExchangeState, Stream
from wiretape.rules.words import or_none, quoted


@rule(
    "CLI002",
    "resumed-from-wrong-event",
    at=REQUEST,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause='Events 1: "The client saves the latest durable SSE `id` as its replay cursor."',
)
def resumed_from_wrong_event(exchange: ExchangeState) -> Outcome:
    """A client that has read a session reconnects with another cursor than the last durable id delivered to it.

    Not after `invalid_cursor` or `stream.resync`, and not while another stream of it is open.
    """
    reader, cursor = exchange.reader, exchange.cursor
    if reader is None or not is_stream_request(exchange) or not reader.read:
        return None
    if reader.streams or reader.restart or reader.resyncs or cursor in reader.refused:
        return None
    if cursor in reader.last:
        return HELD
    if reader.unsure or cursor in reader.perhaps:
        return INCONCLUSIVE
    if not reader.last:
        return None
    wanted = " or ".join(quoted(identity) for identity in list(reader.last)[-2:])
    return problem(f"Expected {wanted} as {CURSOR_HEADER}, got {or_none(cursor)}.")


@rule(
    "CLI003",
    "refused-cursor-sent-again",
    at=REQUEST,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause=f'Stream rule 2: "the error is `{INVALID_CURSOR}` …; the client restarts replay without the cursor."',
)
def refused_cursor_sent_again(exchange: ExchangeState) -> Outcome:
    """A client sends a cursor again after it was told that it is invalid."""
    reader, cursor = exchange.reader, exchange.cursor
    if reader is None or not is_stream_request(exchange) or not reader.refused:
        return None
    if cursor not in reader.refused:
        return HELD
    return problem(f"Expected a restart without {quoted(cursor or '')} after {INVALID_CURSOR}, got it again.")


@rule(
    "CLI005",
    "resync-ignored",
    at=MESSAGE,
    shapes=frozenset({Shape.EPHEMERAL, Shape.DURABLE}),
    types=frozenset({STREAM_RESYNC}),
    severity=Severity.WARNING,
    side=Party.CLIENT,
    scope=Scope.CLIENT,
    clause=f'Events 6: "On `{STREAM_RESYNC}` the client: (1) keeps the last durable SSE id; (2) reconnects …"',
)
def resync_ignored(message: Message, stream: Stream) -> Outcome:
    """After `stream.resync` the client does not reconnect within 60 s, or not with the last durable id."""
    course = stream.course
    if course.resync is not None or not course.is_fresh(message):
        return None
    due_ns = message.time_ns + RECONNECT_NS

    def decide(now_ns: int) -> Outcome:
        return None if course.resync is None else _followed(course.resync, due_ns, now_ns)

    return Later(due_ns, decide)


def _followed(resync: Resync, due_ns: int, now_ns: int) -> Outcome:
    if resync.answered_ns is None or resync.answered_ns > due_ns:
        if resync.unread or (now_ns <= due_ns and resync.ending in {None, Ending.OPEN, Ending.PROXY_STOPPED}):
            # The client had no chance to, or does not know.
            return INCONCLUSIVE
        return problem(f"Expected a reconnect after {STREAM_RESYNC}, got none.")
    if resync.is_right:
        return HELD
    if resync.unsure:
        return INCONCLUSIVE
    wanted = " or ".join(sorted(quoted(identity) for identity in resync.right if identity is not None))
    return problem(
        f"Expected a reconnect with {wanted or 'no cursor'} after {STREAM_RESYNC}, got {or_none(resync.cursor)}."
    )
