"""What to send on a connection because of a fault.  Pure data."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wiretape.contract import Limit
from wiretape_replay.responses.error_envelope import ActiveRun, ErrorDetail


@dataclass(frozen=True, slots=True)
class LogFault:
    """Note that a fault begins here."""

    fault: str
    """The fault's name."""
    text: str
    """One line for the log."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send bytes at once, in one write."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Send nothing for this many nanoseconds of real time; None: until the client leaves."""

    time_ns: int | None


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close the connection in an orderly way (FIN)."""


@dataclass(frozen=True, slots=True)
class ResetConnection:
    """Reset the connection (RST)."""


@dataclass(frozen=True, slots=True)
class SendError:
    """Send an error of the service instead of the response."""

    code: str
    message: str | None = None
    active: ActiveRun | None = None
    limit: Limit | None = None
    retry_after: int | None = None
    reasons: tuple[ErrorDetail, ...] = ()


Instruction = LogFault | Send | Wait | CloseConnection | ResetConnection | SendError


def is_final(instruction: Instruction) -> bool:
    """Whether nothing can follow an instruction."""
    return isinstance(instruction, CloseConnection | ResetConnection | SendError) or instruction == Wait(None)


def until_final(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """The instructions up to and including the first final one."""
    for instruction in instructions:
        yield instruction
        if is_final(instruction):
            return
