"""What the recorder says to the proxy, one line of JSON each: `{"Opened": {"first_exchange": 1}}`."""

from dataclasses import asdict, dataclass
from typing import get_args

import orjson


@dataclass(frozen=True, slots=True)
class Opened:
    """The recording is open."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The recording could not be opened; the sentence says why."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Found:
    """A finding."""

    code: str
    severity: str
    exchange: int
    event: int | None
    message: str
    more: bool
    """Whether more like it, of the same exchange, will not be told."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An exchange is over, stored and judged."""

    exchange: int
    method: str
    path: str
    """The target without its query, which can hold secrets."""
    status: int | None
    ending: str
    detail: str
    seconds: float
    """From the request's start to the exchange's end."""
    bytes: int
    """Of the response's body, as they crossed the wire."""
    events: int | None
    """How many events there were; None where the response is no event stream."""
    findings: int


@dataclass(frozen=True, slots=True)
class Losing:
    """Bytes could not be stored."""

    lost_bytes: int
    """How many so far."""
    why: str


@dataclass(frozen=True, slots=True)
class Unchecked:
    """The checks failed, and what is recorded from now on is not checked."""

    why: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The recording is complete and closed."""

    exchanges: int
    streams: int
    events: int
    findings: int
    lost_bytes: int
    """That could not be stored; what the proxy left out itself is not among them."""
    redacted: int


Report = Opened | Refused | Found | Ended | Losing | Unchecked | Closed
_KINDS: dict[str, type[Report]] = {kind.__name__: kind for kind in get_args(Report)}


def write(report: Report) -> bytes:
    """The line of a report."""
    return orjson.dumps({type(report).__name__: asdict(report)}) + b"\n"


def read(line: bytes) -> Report:
    """The report in a line."""
    ((name, fields),) = orjson.loads(line).items()
    report: Report = _KINDS[name](**fields)
    return report
