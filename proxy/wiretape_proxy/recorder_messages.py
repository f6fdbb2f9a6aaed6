"""Messages between the proxy and the recorder process: JSON after its length.

The proxy sends one `RecorderConfig`; the recorder sends the other messages.  Traffic cannot make a message longer than
`MOST_BYTES`: texts are shortened, and lists are divided.
"""

import struct
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from wiretape.labels import count_of
from wiretape.observations import Side
from wiretape.safe_text import printable, shorten
from wiretape_proxy.proxy_options import Settings

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

Facts = dict[str, str | int | float | None]


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
    """The last file of the recording, which may not be used yet, and before it those that are not handled yet."""
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
    lists_requests: bool = False
    """Whether to send a line for each exchange that ends, and not only for streams and failures."""
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


class LogLine(_Message, frozen=True, tag=True):
    """A line for the log, such as a finding; it contains redacted text only."""

    text: str
    is_warning: bool = False
    facts: Facts = {}
    """What the text says, by name, for programs that read the log."""


class OpenStream(_Message, frozen=True):
    """An event stream that is open."""

    exchange: int
    channel: str | None
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


class UnfinishedFiles(_Message, frozen=True, tag=True):
    """Rotation begins the next file, or has compressed a closed one and run its command."""

    files: Sequence[str]
    """Those that are closed but not handled, and at the end the one that is written now, or begins."""


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
    | LogLine
    | RecorderStatus
    | BytesNotStored
    | UnfinishedFiles
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
