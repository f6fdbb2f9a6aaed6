"""The words that people read for endings, findings and numbers, the same wherever they read them."""

from wiretape.observations import Ending
from wiretape.safe_text import printable

_ENDINGS = {
    Ending.COMPLETE: "complete",
    Ending.SERVICE_CLOSED: "service closed early",
    Ending.SERVICE_RESET: "service reset",
    Ending.SERVICE_UNREACHABLE: "service unreachable",
    Ending.SERVICE_INVALID: "service sent no HTTP",
    Ending.CLIENT_CLOSED: "client closed",
    Ending.TIMED_OUT: "timed out",
    Ending.PROXY_STOPPED: "proxy stopped",
    Ending.OPEN: "still open",
}


def ending_label(how: Ending, *, stream: bool, in_event: bool = False) -> str:
    """How an exchange ended; `in_event` says that bytes of an unfinished message were left."""
    words = _ENDINGS[how]
    if stream and how in {Ending.COMPLETE, Ending.SERVICE_CLOSED}:
        # A stream has no announced end, so to its reader both are the service closing it.
        words = "service closed"
    return f"{words} in mid-event" if in_event else words


def finding_line(severity: str, code: str, exchange: int, event: int | None, message: str) -> str:
    """A finding as one line, safe to show; `event` None where it is about no single one."""
    where = f"exchange {exchange}" + (f", event {event}" if event is not None else "")
    return printable(f"{severity} {code} ({where}): {message}")


def count_of(number: int, noun: str) -> str:
    """`1 event`, `2,000 events`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
