"""What a recording tells about itself and about each exchange."""

from dataclasses import dataclass
from datetime import datetime

from wiretape.contract import is_event_stream
from wiretape.observations import Ending, RequestStarted, ResponseStarted, header


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """The head of a recording."""

    format: int
    tool: str
    """Name and version of the program that recorded last."""
    upstream: str
    started: datetime
    """Wall clock (UTC) at time 0."""
    ended_ns: int | None
    """When recording stopped; None while it goes on, or when the recorder was killed."""
    redacted: int
    """How many secrets were replaced by fingerprints."""
    started_unix_ns: int
    """The same as `started`, to the nanosecond."""


@dataclass(frozen=True, slots=True)
class Capture:
    """One run of a program that recorded."""

    tool: str
    """Its name and version."""
    began_ns: int
    ended_ns: int | None
    """None where it was killed, or is still at it."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response: the heads, the ending, and what they say."""

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
    """Bytes of the request body that are recorded, as they crossed the wire."""
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
