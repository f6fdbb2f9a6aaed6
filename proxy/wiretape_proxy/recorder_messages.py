"""Messages between the proxy and the recorder process: JSON after its length, and how the log words them.

The proxy sends one `RecorderConfig`; the recorder sends the other messages.  Traffic cannot make a message longer than
`MOST_BYTES`: texts are shortened, and lists are divided.
"""

import struct
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from wiretape import labels
from wiretape.labels import count_of
from wiretape.observations import Side
from wiretape.safe_text import printable, shorten
from wiretape_proxy.addon_options import Settings

MOST_BYTES = 1 << 20
"""Bytes of a message."""
MOST_STREAMS = 50
"""Open streams in a status."""
MOST_FINDINGS = 1000
"""New findings in a status."""
RECORDER_FAILED = "the recorder process failed"
"""Why bytes are lost that the recorder did not store."""
MOST_HELD = 10_000
"""Bodies of which bytes are held back, in a message."""
_LONGEST_TEXT = 4096
_LENGTH = struct.Struct("=I")


class HeldBody(Struct, frozen=True, array_like=True):
    """A body of which the last bytes are not on the disk yet, because they could be a part of a secret."""

    exchange: int
    side: Side
    end: int
    """How far it arrived."""


class ResumedCapture(Struct, frozen=True):
    """A capture whose recorder process failed: another one adds to it."""

    first_exchange: int
    """The number of its first exchange."""
    base_ns: int
    """The monotonic clock at time 0 of the recording."""
    files: Sequence[str]
    """The last file of the recording, and before it those that are rotated but not handled."""
    held: Sequence[HeldBody] = ()
    """Bodies whose last bytes were lost with that recorder."""


class RecorderConfig(Struct, frozen=True):
    """Where the recorder stores, and what it checks."""

    settings: Settings
    """Those of the addon; `output` is never empty."""
    upstream: str
    """The address that is proxied, as far as it is known; stored in the recording."""
    wants_status: bool
    """Whether to send `RecorderStatus` regularly."""
    resumed: ResumedCapture | None = None


class _Message(Struct, frozen=True):
    """A message, or a part of one, that shortens long texts."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str) and len(value) > _LONGEST_TEXT:
                force_setattr(self, name, shorten(value, _LONGEST_TEXT))


class RecordingOpened(_Message, frozen=True, tag=True):
    """The recording is open."""

    first_exchange: int
    """The number of the next exchange in the recording."""
    base_ns: int
    """The monotonic clock at time 0 of the recording."""


class BatchesStored(_Message, frozen=True, tag=True):
    """Batches are on the disk; sent after each commit, and repeated while the next one is late."""

    count: int
    """How many so far."""
    held: Sequence[HeldBody] = ()
    """Bodies whose last bytes are not; `MOST_HELD` at most."""


class RecorderFailed(_Message, frozen=True, tag=True):
    """The recorder raised an exception; this is its last message."""

    why: str


class RecordingRefused(_Message, frozen=True, tag=True):
    """The recording cannot be opened."""

    error: str


class LiveFinding(_Message, frozen=True, tag=True):
    """A finding."""

    code: str
    severity: str
    exchange: int
    event: int | None
    message: str
    is_last_shown: bool
    """Whether further findings of this rule in this exchange are not reported."""

    def line(self) -> str:
        """Return the log line."""
        more = " (further ones in this exchange are recorded but not shown)" if self.is_last_shown else ""
        return labels.finding_line(self.severity, self.code, self.exchange, self.event, self.message) + more


class ExchangeSummary(_Message, frozen=True, tag=True):
    """An exchange ended, and is stored and checked."""

    exchange: int
    method: str
    path: str
    """The target without its query, which can contain secrets."""
    status: int | None
    is_complete: bool
    ending: str
    """The label of the ending."""
    detail: str
    seconds: float
    """From the start of the request to the end of the exchange."""
    size: int
    """Bytes of the response's body on the wire."""
    events: int | None
    """Number of events; None if the response is not an event stream."""
    findings: int

    @property
    def is_notable(self) -> bool:
        """Whether it is worth a log line."""
        return self.events is not None or not self.is_complete or bool(self.detail)

    def line(self) -> str:
        """Return the log line."""
        status = f" {self.status}" if self.status is not None else ""
        events = f"{count_of(self.events, 'event')}, " if self.events else ""
        duration = f"{self.seconds * 1000:.0f} ms" if self.seconds < 1 else f"{self.seconds:,.1f} s"
        size = f"{events}{count_of(self.size, 'byte')} in {duration}"
        findings = f", {count_of(self.findings, 'finding')}" if self.findings else ""
        detail = f". {self.detail}" if self.detail else ""
        line = f"exchange {self.exchange}: {self.method} {self.path}{status}: {size}, {self.ending}{findings}{detail}"
        return printable(line)


class OpenStream(_Message, frozen=True):
    """An event stream that is open."""

    exchange: int
    session: str | None
    events: int
    sequence: int | None
    """The last one on this stream."""
    idle_seconds: float
    """Time since the last byte."""


class FindingCount(_Message, frozen=True):
    """Number of findings of one rule about one exchange since the last status."""

    exchange: int
    code: str
    severity: str
    count: int


class RecorderStatus(_Message, frozen=True, tag=True):
    """Counts so far, sent regularly while there is traffic."""

    requests: int
    events: int
    findings: int
    open_count: int
    """Number of open event streams."""
    open_streams: Sequence[OpenStream]
    """The newest of them, in the order of their requests."""
    new_findings: Sequence[FindingCount]
    unchecked_bytes: int = 0
    """Bytes that are stored but not yet checked, and not in the other counts."""


class BytesNotStored(_Message, frozen=True, tag=True):
    """Bytes could not be written."""

    lost_bytes: int
    """How many so far."""
    why: str

    def line(self) -> str:
        """Return the log line."""
        return f"The recording cannot be written ({self.why}): traffic continues unrecorded."


class RecordingMissing(_Message, frozen=True, tag=True):
    """The file of the recording was deleted, moved or replaced."""

    def line(self) -> str:
        """Return the log line."""
        return "The recording was deleted, moved or replaced: traffic continues unrecorded."


class RecordingLocked(_Message, frozen=True, tag=True):
    """Another program locks the file of the recording."""

    seconds: float
    """For how long."""
    is_closing: bool

    def line(self) -> str:
        """Return the log line."""
        locked = f"Another program has locked the recording for {self.seconds:,.0f} s"
        if self.is_closing:
            return (
                f"{locked}: the recording cannot be closed before the lock is released. Press Ctrl-C to exit now; the "
                "recorder then closes the file later."
            )
        return f"{locked}: traffic is kept in memory until the lock is released."


class ChecksFailed(_Message, frozen=True, tag=True):
    """A rule raised an exception; nothing is checked from now on."""

    why: str

    def line(self) -> str:
        """Return the log line."""
        return f"The live checks failed ({self.why}): traffic is recorded, but no longer checked."


class CatchingUp(_Message, frozen=True, tag=True):
    """Checks take long: those of an existing recording, which come first, or those that closing waits for."""

    unchecked_bytes: int
    is_closing: bool

    def line(self) -> str:
        """Return the log line."""
        if self.is_closing:
            return f"Everything is stored ({unchecked_label(self.unchecked_bytes)}): closing will take a moment."
        return f"Checking the existing recording first: {unchecked_label(self.unchecked_bytes)}."


class FindingsCorrected(_Message, frozen=True, tag=True):
    """The stored findings of an existing recording differed from those that the rules prove."""

    def line(self) -> str:
        """Return the log line."""
        return "The findings that were already in the recording have been corrected."


class FileClosed(_Message, frozen=True, tag=True):
    """The recording continues in a new file."""

    path: str
    next_path: str

    def line(self) -> str:
        """Return the log line."""
        return printable(f"Closed {self.path}; recording continues in {self.next_path}.")


class FileFinished(_Message, frozen=True, tag=True):
    """A file that was closed by rotation is compressed, and its command has run."""

    path: str


class RotationFailed(_Message, frozen=True, tag=True):
    """No new file can be created, or a closed file cannot be compressed, or its command failed."""

    why: str

    def line(self) -> str:
        """Return the log line."""
        return printable(self.why)


class RecordingClosed(_Message, frozen=True, tag=True):
    """The recording is closed."""

    exchanges: int
    streams: int
    events: int
    findings: int
    severities: dict[str, int]
    """Number of findings by severity."""
    inconclusive: list[str]
    """The codes of inconclusive rules."""
    is_missing: bool
    """Whether the file was deleted, moved or replaced."""
    files: str
    """Its name, or the first and the last name of a rotated recording; empty if unknown."""
    checks_failed: bool
    """Whether the checks failed, so that there may be more findings."""
    lost_bytes: int
    """Bytes that could not be written; not those that the proxy dropped."""
    dropped_bytes: int = 0
    """Bytes that the proxy dropped."""
    held_bytes: int = 0
    """Bytes that a recorder that failed had held back."""

    def line(self, path: str) -> str:
        """Return the log line that sums up the recording at `path`."""
        contents = ", ".join(
            (
                count_of(self.exchanges, "exchange"),
                count_of(self.streams, "stream"),
                count_of(self.events, "event"),
                count_of(self.findings, "finding"),
            )
        )
        if self.is_missing:
            return printable(f"{path} was deleted or replaced during the recording: it does not contain {contents}.")
        return printable(f"Recorded {contents} to {self.files}")


RecorderMessage = (
    RecordingOpened
    | RecordingRefused
    | BatchesStored
    | RecorderFailed
    | LiveFinding
    | ExchangeSummary
    | RecorderStatus
    | BytesNotStored
    | RecordingMissing
    | RecordingLocked
    | ChecksFailed
    | CatchingUp
    | FindingsCorrected
    | FileClosed
    | FileFinished
    | RotationFailed
    | RecordingClosed
)
_DECODER: msgspec.json.Decoder[RecorderMessage] = msgspec.json.Decoder(RecorderMessage)
_CONFIG_DECODER = msgspec.json.Decoder(RecorderConfig)


def unchecked_label(count: int) -> str:
    """Word a number of bytes that are not yet checked."""
    return f"{count / 1e6:,.1f} MB not yet checked"


def encode_message(message: RecorderMessage | RecorderConfig) -> bytes:
    """Encode a message, with its length."""
    data = msgspec.json.encode(message)
    return _LENGTH.pack(len(data)) + data


def decode_message(data: bytes) -> RecorderMessage:
    """Decode a message of the recorder.  Raises msgspec.MsgspecError."""
    return _DECODER.decode(data)


def decode_config(data: bytes) -> RecorderConfig:
    """Decode the message of the proxy."""
    return _CONFIG_DECODER.decode(data)


class MessageReader:
    """Splits the bytes of a pipe into messages."""

    def __init__(self) -> None:
        self.rest = bytearray()
        """What follows the last message."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that `data` completes.  Raises ValueError if one would be too long."""
        self.rest += data
        while len(self.rest) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self.rest)
            if size > MOST_BYTES:
                raise ValueError(f"a message of {size:,} bytes")
            end = _LENGTH.size + size
            if len(self.rest) < end:
                return
            message = bytes(self.rest[_LENGTH.size : end])
            del self.rest[:end]
            yield message
