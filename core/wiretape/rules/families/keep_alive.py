"""KAL: keep-alive comments, and silences without them."""

from wiretape.agent_sessions import EVENT_TYPES, KEEP_ALIVE_SECONDS
from wiretape.event import Event
from wiretape.rules.catalogue import (
    EVENT,
    HELD,
    LOST_EVENTS,
    SILENCE,
    WITH_DATA,
    Outcome,
    check,
    problem,
)
from wiretape.rules.exchange import Silence
from wiretape.rules.finding import quote
from wiretape.rules.state.stream_state import StreamState

_NAMES = frozenset({"ping", "keepalive", "heartbeat"})
_SEPARATORS = str.maketrans("", "", "-_. ")


@check(SILENCE)
def silent_too_long(silence: Silence, _stream: StreamState) -> Outcome:
    """No byte arrives on an open stream for longer than the keep-alive interval and its tolerance.

    One finding per silence, when it has ended.  A stream that is open for a shorter time does not exercise the rule.
    """
    if not silence.is_too_long:
        return HELD
    if silence.has_losses:
        return LOST_EVENTS
    seconds = silence.length_ns / 1e9
    return problem(f"Expected a byte at least every {KEEP_ALIVE_SECONDS} s, got none for {seconds:.1f} s.")


@check(EVENT, fast_path=True, shapes=WITH_DATA)
def keep_alive_not_a_comment(event: Event, _stream: StreamState) -> Outcome:
    """A keep-alive is an event (`ping`, `keepalive`, `heartbeat`) instead of a comment."""
    if event.type in EVENT_TYPES or not is_keep_alive(event):
        return HELD
    name = event.name or event.type
    return problem(f"Expected a comment as keep-alive, got the event {quote(name)}.")


def is_keep_alive(event: Event) -> bool:
    """Whether an event of an unknown type is named like a keep-alive."""
    names = (event.name, event.type)
    return any(_is_keep_alive_name(name) for name in names) and EVENT_TYPES.keys().isdisjoint(names)


def _is_keep_alive_name(name: str) -> bool:
    return len(name) < 20 and name.translate(_SEPARATORS).lower() in _NAMES
