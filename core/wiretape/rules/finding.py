"""What checking ends in: findings, and a verdict for each rule."""

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How bad a broken rule is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Party(StrEnum):
    """Who broke a rule."""

    SERVICE = "service"
    CLIENT = "client"
    RECORDING = "recording"
    """Neither: the recording itself falls short."""


class Verdict(StrEnum):
    """What a recording shows about a rule."""

    PASS = "pass"  # noqa: S105 - no password
    """It came up, and held every time."""
    FAIL = "fail"
    NOT_EXERCISED = "not-exercised"
    """It never came up, so the recording proves nothing about it."""
    INCONCLUSIVE = "inconclusive"
    """It came up and was not seen broken, but the recording does not show enough to say that it held."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a recording something was seen."""

    exchange: int
    time_ns: int
    event: int | None = None
    """Which message of the connection, from 1; None for what is about no single message."""
    sequence: int | None = None
    """The sequence that the message itself carries, if it is an integer of 64 bits."""
    byte_offset: int | None = None
    """Where the message begins in the (decoded) body."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect: a rule, and the place that broke it."""

    code: str
    severity: Severity
    side: Party
    exchange: int
    event: int | None
    sequence: int | None
    byte_offset: int | None
    time_ns: int
    message: str
    """One sentence: what was expected and what came.  Safe to print: recorded text is cut and escaped."""


@dataclass(slots=True)
class Tally:
    """How often a rule came up, and what came of it."""

    held: int = 0
    failed: int = 0
    doubted: int = 0
    """Times that it came up but could not be decided."""
    findings: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Why it could not be decided, in half a sentence, and how often."""

    def doubt(self, reason: str) -> None:
        """It came up but could not be decided."""
        self.doubted += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    @property
    def exercised(self) -> int:
        """How often the rule came up and was decided."""
        return self.held + self.failed

    @property
    def verdict(self) -> Verdict:
        """What the counts say."""
        if self.failed:
            return Verdict.FAIL
        if self.doubted:
            return Verdict.INCONCLUSIVE
        return Verdict.PASS if self.held else Verdict.NOT_EXERCISED
