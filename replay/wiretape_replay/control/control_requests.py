"""The parameters of control operations, and the control token: from HTTP and from Python they are checked alike."""

from enum import StrEnum
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from wiretape.control_protocol import DEFAULT_WAIT_S, LONGEST_WAIT_S, MOST_STEPS
from wiretape.decode import Source, decode
from wiretape.errors import InputError
from wiretape_replay.session.playhead import Breakpoint, StepTarget

_LONGEST_LOG_S = 1e9
_LONGEST_ADVANCE_S = 86_400

_Request = TypeVar("_Request", bound=Struct)


class WaitCondition(StrEnum):
    """What can be waited for."""

    STOPPED = "stopped"
    """The playhead stays at its position until somebody moves it: paused, at a breakpoint, or at the end."""
    BREAKPOINT = "breakpoint"
    END = "end"
    CONNECTED = "connected"
    """A stream is connected."""


class SessionRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """The session that an operation applies to; None: all sessions, or the only one."""

    session: str | None = None


class StepRequest(SessionRequest, kw_only=True):
    """How far to step."""

    to: StepTarget = StepTarget.EVENT
    count: Annotated[int, Meta(ge=1, le=MOST_STEPS)] = 1


class SeekRequest(SessionRequest, kw_only=True):
    """Where to go."""

    sequence: int | None = None
    event: str | None = None
    time_s: Annotated[float, Meta(ge=0, le=_LONGEST_LOG_S)] | None = None
    position: int | None = None
    end: bool = False

    def __post_init__(self) -> None:
        """Require exactly one target."""
        if [self.sequence, self.event, self.time_s, self.position, self.end or None].count(None) != 4:
            raise ValueError("expected exactly one of sequence, event, time_s, position or end")


class BreakpointRequest(SessionRequest, kw_only=True):
    """The conditions of a breakpoint."""

    type: str | None = None
    sequence: int | None = None
    tool_call_id: str | None = None
    finding: str | None = None

    @property
    def breakpoint(self) -> Breakpoint | None:
        """The breakpoint with these conditions; None without any."""
        point = Breakpoint(self.type, self.sequence, self.tool_call_id, self.finding)
        return None if point == Breakpoint() else point


class WaitRequest(SessionRequest, kw_only=True):
    """What to wait for, and how long."""

    until: WaitCondition = WaitCondition.STOPPED
    timeout_s: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)] = DEFAULT_WAIT_S


class AdvanceRequest(Struct, forbid_unknown_fields=True):
    """How much virtual time to let pass."""

    seconds: Annotated[float, Meta(ge=0, le=_LONGEST_ADVANCE_S)]


def check_request(name: str, type_: type[_Request], **parameters: object) -> _Request:
    """Check the parameters of an operation.  Raises InputError."""
    return decode(parameters, type_, Source(name))


def check_token(token: str) -> str:
    """Return a control token if a header can carry it.  Raises InputError."""
    if not token or not token.isascii() or not token.isprintable() or token != token.strip():
        raise InputError("Invalid control token: expected printable ASCII without leading or trailing spaces.")
    return token
