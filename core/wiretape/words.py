"""The words that people read for how an exchange ended, the same wherever they read them."""

from wiretape.observe import Ending

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


def ending(how: Ending, *, stream: bool, in_event: bool = False) -> str:
    """How an exchange ended; `in_event` says that bytes of an unfinished message were left."""
    words = _ENDINGS[how]
    if stream and how in {Ending.COMPLETE, Ending.SERVICE_CLOSED}:
        # A stream has no announced end, so to its reader both are the service closing it.
        words = "service closed"
    return f"{words} in mid-event" if in_event else words
