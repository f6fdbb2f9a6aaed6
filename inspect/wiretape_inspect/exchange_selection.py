"""Select the exchanges that the options of a command name, or list what there is instead."""

from collections.abc import Iterator
from itertools import chain, islice

from wiretape.errors import InputError
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import printable

_MAX_LISTED = 5
"""Number of sessions or streams that an error message lists."""


def select_exchanges(
    recording: Recording, *, session: str | None = None, number: int | None = None
) -> Iterator[Exchange]:
    """Return all exchanges, those of a session, or one.  Raises InputError, at once, if there are none."""
    if number is not None:
        return iter([recording.exchange(number)])
    if session is None:
        return recording.exchanges()
    selected = (exchange for exchange in recording.exchanges() if exchange.session_id == session)
    first = next(selected, None)
    if first is None:
        raise InputError(f"There is no session {printable(session)} in this recording; {_list_sessions(recording)}.")
    return chain([first], selected)


def select_stream(recording: Recording, number: int | None) -> Exchange:
    """Return the stream with this number, or the only stream.  Raises InputError."""
    if number is not None:
        exchange = recording.exchange(number)
        if not exchange.is_stream:
            raise InputError(f"Exchange {number} is not an event stream; {_list_streams(recording)}.")
        return exchange
    found = list(islice((exchange for exchange in recording.exchanges() if exchange.is_stream), 2))
    if len(found) != 1:
        raise InputError(f"Choose a stream with --exchange; {_list_streams(recording)}.")
    return found[0]


def _list_sessions(recording: Recording) -> str:
    names = dict.fromkeys(exchange.session_id for exchange in recording.exchanges() if exchange.session_id)
    return _listed("session", "sessions", [printable(name) for name in names])


def _list_streams(recording: Recording) -> str:
    numbers = [str(exchange.number) for exchange in recording.exchanges() if exchange.is_stream]
    names = [f"exchange{'' if len(numbers) == 1 else 's'} {number}" for number in numbers[:1]] + numbers[1:]
    return _listed("event stream", "event streams", names)


def _listed(singular: str, plural: str, names: list[str]) -> str:
    """Describe what the recording has: `its sessions are s1, s2 and 3 more`."""
    if not names:
        return f"the recording has no {plural}"
    if len(names) == 1:
        return f"the only {singular} is {names[0]}"
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"the {plural} are {', '.join(names[:_MAX_LISTED])}{more}"
