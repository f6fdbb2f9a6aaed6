"""The bytes of one event stream and nothing else, as `curl -N` saves them: read as one exchange."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.contract import EVENT_DELTAS, EVENT_STREAM, STREAM
from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.observations import (
    Ending,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording.formats.registry import FormatReader
from wiretape.recording.recording_source import RecordingMetadata, RecordingSource, observe_body, order_observations
from wiretape.safe_text import printable

ADDRESS = f"http://127.0.0.1{STREAM.path.replace('{session_id}', 'imported')}?{EVENT_DELTAS}=true"
"""Where a stream is said to have come from when nobody says."""
_BEGINS = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:(?:data|event|id|retry):|:)")
_MADE_UP = (
    "The bytes are all there is: the request is made up ({}), and so is the head of the answer; all events come at "
    "once, when the file was last changed. Findings about requests, keys and silences mean nothing."
)
_PIECE = 1 << 16
_WEB = ("http", "https")


def begins(data: bytes) -> bool:
    """Whether an event stream begins so."""
    return _BEGINS.match(data) is not None


def read(path: Path, address: str = ADDRESS) -> RecordingSource:
    """Begin to read a stream, which is said to have come from `address`.  Raises InputError."""
    try:
        url = urlsplit(address)
        good = url.scheme in _WEB and url.netloc.isascii() and bool(url.netloc) and address.isascii()
    except ValueError:
        good = False
    if not good:
        raise InputError(f"{printable(address)} is no URL of a stream, such as {ADDRESS}.")
    try:
        written_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise InputError(read_error(path, error)) from None
    left_out = [_MADE_UP.format(printable(address))]
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    request = RequestStarted(1, written_ns, "", "GET", url.scheme, url.netloc, target, "HTTP/1.1", ())
    head = RecordingMetadata(f"{url.scheme}://{url.netloc}", written_ns)
    return RecordingSource(head, order_observations([_observations(path, request)], written_ns), notes=left_out)


def _observations(path: Path, request: RequestStarted) -> Iterator[Observation]:
    now_ns = request.time_ns
    yield request
    yield RequestEnded(1, now_ns)
    yield ResponseStarted(1, now_ns, 200, "OK", "HTTP/1.1", (("Content-Type", EVENT_STREAM),))
    try:
        with path.open("rb") as file:
            yield from observe_body(1, Side.RESPONSE, ((now_ns, data) for data in iter(lambda: file.read(_PIECE), b"")))
    except OSError as error:
        raise InputError(read_error(path, error)) from None
    yield ExchangeEnded(1, now_ns, Ending.OPEN)


READER = FormatReader(begins, read)
