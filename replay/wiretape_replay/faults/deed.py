"""What faults do.  Pure data: no I/O, no clock."""

from dataclasses import dataclass
from enum import StrEnum

from wiretape.contract import Limit
from wiretape_replay.answers.reasons import Reason


class Do(StrEnum):
    """What a fault does, by the word that scripts use."""

    DROP = "drop"
    RESET = "reset"
    STALL = "stall"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    CORRUPT = "corrupt"
    SPLIT = "split"
    OVERSIZE = "oversize"
    RESYNC = "resync"
    EXPIRE_CURSOR = "expire-cursor"
    ERROR = "error"


class Damage(StrEnum):
    """How an event is corrupted."""

    FLIP = "flip"
    """Single bits of its data are turned, at places left to chance."""
    REPLACE = "replace"
    """A text in its frame becomes another."""
    UTF_8 = "utf-8"
    """A byte that no UTF-8 has is put into its data."""
    JSON = "json"
    """The last character of its data is left out."""


class Seam(StrEnum):
    """Where a frame is split."""

    EVERY_BYTE = "every-byte"
    UTF_8 = "utf-8"
    """Inside each character of several bytes."""
    CRLF = "crlf"
    """Between each CR and its LF."""


@dataclass(frozen=True, slots=True)
class Cut:
    """End the connection, in an orderly way or with a reset."""

    reset: bool = False
    offset: int | None = None
    """In an event: the bytes of its frame that are sent still; None: half of them."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Send nothing for so long; None: until the client leaves."""

    time_ns: int | None = None
    offset: int | None = None
    """As for Cut."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Send the event again."""

    copies: int = 1


@dataclass(frozen=True, slots=True)
class Reorder:
    """Send the event after the `by` that follow it."""

    by: int = 1


@dataclass(frozen=True, slots=True)
class Corrupt:
    """Change bytes of the event."""

    how: Damage = Damage.FLIP
    count: int = 1
    """For FLIP: how many bytes."""
    find: bytes = b""
    put: bytes = b""
    """For REPLACE: what takes the place of `find`, wherever that stands in the frame."""


@dataclass(frozen=True, slots=True)
class Split:
    """Send the frame in pieces."""

    where: Seam | tuple[int, ...]
    """Or the offsets in the frame at which pieces begin."""
    pause_ns: int = 0
    """Between two pieces."""


@dataclass(frozen=True, slots=True)
class Oversize:
    """Make the event's data so many bytes long, with spaces at its end."""

    size: int


@dataclass(frozen=True, slots=True)
class Resync:
    """Insert a `stream.resync` event; without an id it is ephemeral."""

    id: str | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class ExpireCursor:
    """Refuse cursors as unknown."""

    cursors: tuple[str, ...] = ()
    """Empty: any."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error of the service."""

    code: str
    message: str | None = None
    retry_after: int | None = None
    """Seconds."""
    limit: Limit | None = None
    active_run: str | None = None
    active_run_status: str | None = None
    reasons: tuple[Reason, ...] = ()


Deed = Cut | Pause | Duplicate | Reorder | Corrupt | Split | Oversize | Resync | ExpireCursor | Refuse
