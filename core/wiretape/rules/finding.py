"""Results of checking: findings, how their messages quote recorded values, and for each rule a tally and a verdict."""

from dataclasses import dataclass, field
from enum import StrEnum

from wiretape.event import Event
from wiretape.safe_text import printable

_BEYOND_INT64 = 2**63
_LONGEST = 60


class Severity(StrEnum):
    """Severity of a broken rule, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    def reaches(self, threshold: "Severity | None") -> bool:
        """Whether this is at least as severe as `threshold`; nothing is if that is None."""
        worst_first = list(Severity)
        return threshold is not None and worst_first.index(self) <= worst_first.index(threshold)


class Party(StrEnum):
    """The side that broke a rule."""

    SERVICE = "service"
    CLIENT = "client"
    RECORDING = "recording"
    """Neither side: the recording itself is incomplete."""


class Verdict(StrEnum):
    """What a recording shows about a rule."""

    PASS = "pass"  # noqa: S105 - not a password
    """The rule was exercised and held every time."""
    FAIL = "fail"
    """The rule was broken at least once."""
    NOT_EXERCISED = "not-exercised"
    """The rule was never exercised, so the recording shows nothing about it."""
    INCONCLUSIVE = "inconclusive"
    """The rule was never seen broken, but at least once the recording did not show enough to decide."""


@dataclass(frozen=True, slots=True)
class Location:
    """A location in a recording."""

    exchange: int
    time_ns: int
    event: int | None = None
    """Number of the event on its connection, from 1; None if the location is not a single event."""
    sequence: int | None = None
    """The sequence in the event itself, if it is a 64-bit integer."""
    byte_offset: int | None = None
    """Offset of the first byte of the event in the (decoded) body."""

    @classmethod
    def of(cls, event: Event) -> "Location":
        """The location of an event."""
        sequence = event.sequence
        if sequence is not None and not -_BEYOND_INT64 <= sequence < _BEYOND_INT64:
            sequence = None
        return cls(event.exchange, event.time_ns, event.number, sequence, event.frame.start)


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect: a broken rule and its location."""

    code: str
    severity: Severity
    side: Party
    exchange: int
    event: int | None
    sequence: int | None
    byte_offset: int | None
    time_ns: int
    message: str
    """One sentence with the expected and the actual value.  Safe to print: recorded text is cut and escaped."""


@dataclass(slots=True)
class Tally:
    """How often a rule was exercised, and with which results."""

    held: int = 0
    failed: int = 0
    inconclusive: int = 0
    """How often it could not be decided."""
    findings: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Why it could not be decided, and how often for each reason."""

    def add_inconclusive(self, reason: str) -> None:
        """Count one time that the rule could not be decided."""
        self.inconclusive += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    @property
    def exercised(self) -> int:
        """How often the rule was exercised and decided."""
        return self.held + self.failed

    @property
    def verdict(self) -> Verdict:
        """The verdict that follows from the counts."""
        if self.failed:
            return Verdict.FAIL
        if self.inconclusive:
            return Verdict.INCONCLUSIVE
        return Verdict.PASS if self.held else Verdict.NOT_EXERCISED


def shorten_text(text: str) -> str:
    """Return `text` on one line and shortened."""
    return f"{printable(text[:_LONGEST])}…" if len(text) > _LONGEST else printable(text)


def quote(text: str) -> str:
    """Return `text` between backquotes, on one line and shortened."""
    return f"`{shorten_text(text)}`"


def quote_or_none(text: str | None) -> str:
    """Return `text` quoted, or the word `none`."""
    return "none" if text is None else quote(text)


def quote_bytes(value: bytes) -> str:
    """Return `value` quoted, with U+FFFD for bytes that are not UTF-8."""
    return quote(value[: 4 * _LONGEST + 4].decode("utf-8", "replace"))


def describe(value: object) -> str:
    """Describe a JSON value: strings and numbers in full, arrays and objects only by their type."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {quote(value)}"
        case int() | float():
            return f"the number {format_number(value)}"
        case dict():
            return "an object"
        case list():
            return "an array"
    return "no value"


def format_number(value: float) -> str:
    """Return a number in full, unless it is too long for a line."""
    return repr(value) if abs(value) < 10**40 else "of more than 40 digits"
