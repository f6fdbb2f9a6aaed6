"""Vectors as people can read them: who says what, and what the checker says of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.rules import Checker
from wiretape.rules.vectors import Vector
from wiretape.safe_text import printable
from wiretape_inspect.humanize import duration, moment

_LONGEST = 600
"""Characters of a line of traffic that are shown."""
_PAUSE_NS = 100_000_000
"""From this long on, a pause within an exchange is told."""


@dataclass(frozen=True, slots=True)
class Example:
    """A vector as it can be read."""

    name: str
    breaks: bool
    shows: str
    traffic: list[str]
    """What passes, line for line; bytes that are no plain text are escaped."""
    found: list[str]
    """What the checker says of it."""

    @classmethod
    def of(cls, vector: Vector) -> "Example":
        """A vector, with what the checker says of it."""
        checker = Checker()
        findings = [found for seen in vector.observations() for found in checker.feed(seen)] + checker.finish()
        found = [f"{finding.code} {finding.severity}: {finding.message}" for finding in findings]
        return cls(vector.name, vector.breaks, vector.shows, list(_traffic(vector.observations())), found)


def _traffic(observations: Iterable[Observation]) -> Iterator[str]:
    """What passes, as lines: `>` before what the client sends, `<` before what the service answers."""
    shown = list(observations)
    several = len({seen.exchange for seen in shown}) > 1
    clients = {seen.exchange: seen.client for seen in shown if isinstance(seen, RequestStarted)}
    of_client = {
        number: f", client {name}" if len(set(clients.values())) > 1 else "" for number, name in clients.items()
    }
    speaking, last_ns = None, shown[0].time_ns
    for seen in shown:
        lines = list(_said(seen))
        if lines and several and speaking != seen.exchange:
            yield from ([] if speaking is None else [""])
            yield f"# exchange {seen.exchange}{of_client[seen.exchange]}, {moment(seen.time_ns)}"
            speaking = seen.exchange
        elif lines and seen.time_ns - last_ns >= _PAUSE_NS:
            yield f"({duration(seen.time_ns - last_ns)} later)"
        yield from map(_cut, lines)
        last_ns = seen.time_ns


def _said(seen: Observation) -> Iterator[str]:
    match seen:
        case RequestStarted():
            yield printable(f"> {seen.method} {seen.target}")
            yield from _headers(">", seen.headers)
        case ResponseStarted():
            yield printable(f"< {seen.status} {seen.reason}")
            yield from _headers("<", seen.headers)
        case BytesArrived():
            mark = ">" if seen.side is Side.REQUEST else "<"
            yield from (f"{mark} {line}".rstrip() for line in _body(seen.data))
        case BytesLost():
            yield f"({seen.count} bytes passed that were not recorded)"
        case ExchangeEnded() if seen.ending is not Ending.COMPLETE:
            yield f"({_ENDED[seen.ending]})"


_ENDED = {
    Ending.SERVICE_CLOSED: "the service closes the connection before the answer is whole",
    Ending.SERVICE_RESET: "the service resets the connection",
    Ending.SERVICE_UNREACHABLE: "no connection to the service can be made",
    Ending.SERVICE_INVALID: "the service answers something that is no HTTP",
    Ending.CLIENT_CLOSED: "the client closes the connection",
    Ending.TIMED_OUT: "nothing comes any more",
    Ending.PROXY_STOPPED: "the proxy stops",
    Ending.OPEN: "the recording ends here",
}


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}… ({len(line) - _LONGEST:,} characters more)"


def _headers(mark: str, headers: Headers) -> Iterator[str]:
    yield from (printable(f"{mark} {name}: {value}") for name, value in headers)
    yield mark


def _body(data: bytes) -> list[str]:
    """The lines of a body; what is no text, and line ends that are not LF, as escapes."""
    text = data.decode("utf-8", "backslashreplace")
    lines = [printable(line) for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else [*lines[:-1], f"{lines[-1]}  (no line end)"]
