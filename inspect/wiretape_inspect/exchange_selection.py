"""Finding what a command line names in a recording, or saying what there is instead."""

from collections.abc import Iterator
from itertools import chain, islice

from wiretape.errors import InputError
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import printable

_NAMED = 5
"""How many of the things there are an error names."""


def exchanges(recording: Recording, *, session: str | None = None, number: int | None = None) -> Iterator[Exchange]:
    """All exchanges, those of one session, or one.  Raises InputError, at once, when there is none such."""
    if number is not None:
        return iter([recording.exchange(number)])
    if session is None:
        return recording.exchanges()
    chosen = (exchange for exchange in recording.exchanges() if exchange.session_id == session)
    first = next(chosen, None)
    if first is None:
        raise InputError(f"There is no session {printable(session)} in this recording; {_sessions(recording)}.")
    return chain([first], chosen)


def stream(recording: Recording, number: int | None) -> Exchange:
    """The stream exchange with this number, or the only one there is.  Raises InputError."""
    if number is not None:
        exchange = recording.exchange(number)
        if not exchange.is_stream:
            raise InputError(f"Exchange {number} is no event stream; {_streams(recording)}.")
        return exchange
    found = list(islice((exchange for exchange in recording.exchanges() if exchange.is_stream), 2))
    if len(found) != 1:
        raise InputError(f"Choose a stream with --exchange; {_streams(recording)}.")
    return found[0]


def _sessions(recording: Recording) -> str:
    names = dict.fromkeys(exchange.session_id for exchange in recording.exchanges() if exchange.session_id)
    return _listed("sessions", "session", [printable(name) for name in names])


def _streams(recording: Recording) -> str:
    numbers = [str(exchange.number) for exchange in recording.exchanges() if exchange.is_stream]
    return _listed("streams are exchanges", "stream is exchange", numbers)


def _listed(several: str, one: str, names: list[str]) -> str:
    if not names:
        return f"it has no {several.partition(' ')[0]}"
    if len(names) == 1:
        return f"its only {one} {'' if ' ' in one else 'is '}{names[0]}"
    shown = ", ".join(names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    verb = "" if " " in several else "are "
    return f"its {several} {verb}{shown}{more}"
