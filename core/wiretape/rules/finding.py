"""Results of checking: findings, and for each rule a tally and a verdict."""

from dataclasses import dataclass, field
from enum import StrEnum

from wiretape.event import Event

_BEYOND_INT64 = 2**63


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
