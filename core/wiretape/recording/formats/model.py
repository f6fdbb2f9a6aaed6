"""What a format does: read a file into observations, or write a recording as bytes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wiretape.observations import Observation
from wiretape.recording.model import Capture, Exchange
from wiretape.recording.reader import Recording
from wiretape.rules.finding import Finding

MOST_HELD = 512 * 1024 * 1024
"""How many bytes of a file there may be that have to be held at once: all of a HAR, a line of JSON lines."""

MOST_REDACTED = 2**53
"""How many secrets a head may say were redacted."""
FIRST_STATUS, LAST_STATUS = 100, 999
"""What HTTP has for the status of an answer.  Services that get it wrong have been recorded with less."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a recording besides what was observed."""

    upstream: str
    started_unix_ns: int
    """When it began, on the clock on the wall."""
    captures: tuple[Capture, ...] = ()
    """The runs of recorders that made it; none where nobody says."""
    redacted: int = 0
    """How many secrets had been replaced by fingerprints."""


@dataclass(slots=True)
class Incoming:
    """A file on its way into a recording."""

    head: Head
    observations: Iterator[Observation]
    """In order of time, each time above the one before it.  Raises InputError where the file is wrong."""
    findings: list[Finding] | None = None
    """The live findings that the file holds, once `observations` have been taken; None: it can hold none, so that the
    rules are asked anew."""
    left_out: list[str] = field(default_factory=list)
    """A sentence for each thing that the format could not hold or the reader had to make up, once `observations` have
    been taken."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Reading a format."""

    fits: Callable[[bytes], bool]
    """Whether a file that begins with these bytes (64 KiB, or all it has) is one."""
    read: Callable[[Path], Incoming]
    """Begin to read a file.  Raises InputError where it is wrong."""


@dataclass(frozen=True, slots=True)
class Writes:
    """Writing a format."""

    write: Callable[[Recording, Iterable[Exchange] | None], Iterator[bytes]]
    """The bytes for a recording, or (not None) for some of its exchanges."""
