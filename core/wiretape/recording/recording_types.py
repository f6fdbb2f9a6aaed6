"""Types of what a recording holds: its description, its captures and its exchanges."""

from dataclasses import dataclass
from datetime import datetime

from wiretape.contract import is_event_stream
from wiretape.observations import Ending, RequestStarted, ResponseStarted, header


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """Description of a recording."""

    format: int
    tool: str
    """Name and version of the program that recorded last."""
    upstream: str
    started: datetime
    """Wall clock (UTC) at time 0."""
    ended_ns: int | None
    """When recording stopped; None while recording continues, or if the recorder was killed."""
    redacted: int
    """Number of secrets that were replaced by fingerprints."""
    started_unix_ns: int
    """The same as `started`, in nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Capture:
    """One run of a program that recorded."""

    tool: str
    """Its name and version."""
    began_ns: int
    ended_ns: int | None
    """None if the program was killed, or is still recording."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response, without their bodies."""

    number: int
    request: RequestStarted
    request_ended_ns: int | None
    response: ResponseStarted | None
    ending: Ending
    detail: str
    ended_ns: int | None
    operation: str | None
    session_id: str | None
    run_id: str | None
    request_bytes: int
    """Recorded bytes of the request body, as they crossed the wire."""
    response_bytes: int
    lost_bytes: int
    """Bytes of both bodies that passed but were not recorded."""

    @property
    def content_encoding(self) -> str | None:
        """The Content-Encoding of the response."""
        return header(self.response.headers, "content-encoding") if self.response else None

    @property
    def is_stream(self) -> bool:
        """Whether the response is an event stream."""
        return self.response is not None and is_event_stream(header(self.response.headers, "content-type"))
