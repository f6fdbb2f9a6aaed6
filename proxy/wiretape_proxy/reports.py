"""What the recorder says to the proxy, one line of JSON each: `{"Opened": {"first_exchange": 1}}`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import get_args

import orjson


@dataclass(frozen=True, slots=True)
class Opened:
    """The recording is open."""

    first_exchange: int
    """The number of the next exchange in the recording."""


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
    words: str
    """The ending as people read it, here as in other commands."""
    detail: str
    seconds: float
    """From the request's start to the exchange's end."""
    bytes: int
    """Of the response's body, as they crossed the wire."""
    events: int | None
    """How many events there were; None where the response is no event stream."""
    findings: int


@dataclass(frozen=True, slots=True)
class OpenStream:
    """An event stream that is open."""

    exchange: int
    session: str | None
    events: int
    sequence: int | None
    """The last one on this stream."""
    silence: float
    """Seconds since the last byte."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Findings of one rule about one exchange, since the report before."""

    exchange: int
    code: str
    severity: str
    count: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How things stand; told now and then, when somebody wants to know."""

    requests: int
    events: int
    findings: int
    open: int
    """How many event streams are open."""
    streams: Sequence[OpenStream]
    """The newest of them, in the order of their requests."""
    marks: Sequence[Mark]
    latest: Sequence[Found]
    """The last of the findings that the marks count."""
    unchecked: int = 0
    """How many bytes are stored but not yet checked: all the rest is as of before they came."""


@dataclass(frozen=True, slots=True)
class Losing:
    """Bytes could not be stored."""

    lost_bytes: int
    """How many so far."""
    why: str


@dataclass(frozen=True, slots=True)
class Misplaced:
    """The file that is recorded to is no longer there: deleted, moved or replaced."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """The checks failed, and what is recorded from now on is not checked."""

    why: str


@dataclass(frozen=True, slots=True)
class CatchingUp:
    """All is stored, but closing takes a while, because not all is checked."""

    unchecked: int
    """How many bytes are not."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The recording is complete and closed."""

    exchanges: int
    streams: int
    events: int
    findings: int
    severities: Mapping[str, int]
    """How many findings there were of each severity."""
    misplaced: bool
    """Whether the file is no longer where it was."""
    unchecked: bool
    """Whether the checks failed, so that there may be more to find."""
    lost_bytes: int
    """That could not be stored; what the proxy left out itself is not among them."""
    redacted: int


Report = Opened | Refused | Found | Ended | Progress | Losing | Misplaced | Unchecked | CatchingUp | Closed
_KINDS: dict[str, type[Report]] = {kind.__name__: kind for kind in get_args(Report)}


def write(report: Report) -> bytes:
    """The line of a report."""
    return orjson.dumps({type(report).__name__: asdict(report)}) + b"\n"


def read(line: bytes) -> Report:
    """The report in a line."""
    ((name, fields),) = orjson.loads(line).items()
    if name == Progress.__name__:
        fields["streams"] = [OpenStream(**stream) for stream in fields["streams"]]
        fields["marks"] = [Mark(**mark) for mark in fields["marks"]]
        fields["latest"] = [Found(**found) for found in fields["latest"]]
    report: Report = _KINDS[name](**fields)
    return report
