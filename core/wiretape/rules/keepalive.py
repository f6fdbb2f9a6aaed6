"""KAL: the keep-alive comment, and silence where it should have come."""

from wiretape.contract import EVENT_TYPES, KEEP_ALIVE_SECONDS
from wiretape.rules.catalogue import (
    AFTER_COMMENT,
    HELD,
    MESSAGE,
    PAUSE,
    Basis,
    Outcome,
    Scope,
    problem,
    rule,
)
from wiretape.rules.doubts import UNSEEN
from wiretape.rules.finding import Severity
from wiretape.rules.message import Message, Shape
from wiretape.rules.pauses import Pause
from wiretape.rules.state import Stream
from wiretape.rules.words import quoted
from wiretape.sse import FrameKind

_WITH_DATA = frozenset(Shape) - {Shape.BARE}
_KEEP_ALIVE = f'Stream rule 3: "Every {KEEP_ALIVE_SECONDS} seconds the server sends an SSE keep-alive comment."'
_NAMES = frozenset({"ping", "keepalive", "heartbeat"})
_NO_LETTERS = str.maketrans("", "", "-_. ")


@rule(
    "KAL001",
    "silent-too-long",
    at=PAUSE,
    severity=Severity.WARNING,
    scope=Scope.STREAM,
    clause=_KEEP_ALIVE,
)
def silent_too_long(pause: Pause) -> Outcome:
    """No byte came on an open stream for longer than the keep-alive interval and its tolerance.

    One finding for a silence, when it has ended.  A stream that was open for less long does not bring it up.
    """
    if not pause.is_too_long:
        return HELD
    if pause.lost:
        return UNSEEN
    seconds = pause.length_ns / 1e9
    return problem(f"Expected a byte at least every {KEEP_ALIVE_SECONDS} s, got none for {seconds:.1f} s.")


@rule(
    "KAL002",
    "keep-alive-not-a-comment",
    at=MESSAGE,
    plain=True,
    shapes=_WITH_DATA,
    severity=Severity.NOTE,
    basis=Basis.INFERRED,
    clause=_KEEP_ALIVE,
)
def keep_alive_not_a_comment(message: Message, _stream: Stream) -> Outcome:
    """A keep-alive comes as an event (`ping`, `keepalive`, `heartbeat`) and not as a comment."""
    if message.type in EVENT_TYPES or not is_keep_alive(message):
        return HELD
    name = event_name(message) or message.type or ""
    return problem(f"Expected a comment as keep-alive, got the event {quoted(name)}.")


def is_keep_alive(message: Message) -> bool:
    """Whether a message is an event of no known type that is named as keep-alives are."""
    names = [name for name in (event_name(message), message.type) if name is not None]
    return any(_is_like(name) for name in names) and EVENT_TYPES.keys().isdisjoint(names)


def event_name(message: Message) -> str | None:
    """The value of the `event` line, with U+FFFD for what is no UTF-8."""
    line = message.event_line
    return None if line is None else line.decode("utf-8", "replace")


def _is_like(name: str) -> bool:
    return len(name) < 20 and name.translate(_NO_LETTERS).lower() in _NAMES


@rule(
    "KAL003",
    "keep-alive-with-blank-line",
    at=AFTER_COMMENT,
    severity=Severity.NOTE,
    scope=Scope.STREAM,
    basis=Basis.INFERRED,
    clause=_KEEP_ALIVE,
)
def keep_alive_with_blank_line(stream: Stream, following: FrameKind) -> Outcome:
    """A blank line follows a keep-alive comment, for which some clients hand out an empty event.

    So do httpx-sse and the decoders of the Python libraries of OpenAI and Anthropic.  One finding a stream.
    """
    if following is not FrameKind.BLANK:
        return HELD
    if stream.blank_comment:
        return None
    return problem("Expected a comment and no blank line behind it, got one, which some clients take for an event.")
