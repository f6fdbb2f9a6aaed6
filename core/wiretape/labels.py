"""Labels for endings, findings and counts, the same in all commands."""

from collections.abc import Sequence

from wiretape.observations import Ending
from wiretape.safe_text import printable

_ENDINGS = {
    Ending.COMPLETE: "complete",
    Ending.SERVICE_CLOSED: "service closed early",
    Ending.SERVICE_RESET: "service reset",
    Ending.SERVICE_UNREACHABLE: "service unreachable",
    Ending.SERVICE_INVALID: "service sent invalid HTTP",
    Ending.CLIENT_CLOSED: "client closed",
    Ending.TIMED_OUT: "timed out",
    Ending.PROXY_STOPPED: "proxy stopped",
    Ending.OPEN: "still open",
}


def ending_label(ending: Ending, *, stream: bool, in_event: bool = False) -> str:
    """Word how an exchange ended; `in_event`: the last event is unfinished."""
    label = _ENDINGS[ending]
    if stream and ending in {Ending.COMPLETE, Ending.SERVICE_CLOSED}:
        # A stream has no announced end, so for its reader both mean that the service closed it.
        label = "service closed"
    return f"{label} in mid-event" if in_event else label


def ended_well(ending: Ending, *, stream: bool, in_event: bool = False) -> bool:
    """Whether an ending is no failure: clients and proxies may leave, and the service ends streams by closing them."""
    if ending in {Ending.OPEN, Ending.CLIENT_CLOSED, Ending.PROXY_STOPPED}:
        return True
    return not in_event and (ending is Ending.COMPLETE or (stream and ending is Ending.SERVICE_CLOSED))


def finding_line(severity: str, code: str, exchange: int, event: int | None, message: str) -> str:
    """Word a finding as one line that is safe to print; `event` is None if it concerns the whole exchange."""
    location = f"exchange {exchange}" + (f", event {event}" if event is not None else "")
    return printable(f"{severity} {code} ({location}): {message}")


def join_first(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """Word the first items of a list: `a, b and 3 more`."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return separator.join(items[:most]) + more


def count_of(number: int, noun: str) -> str:
    """Word a count: `1 event`, `2,000 events`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
