"""Raw event streams: the bytes of one stream and nothing else, as `curl -N` saves them."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.content_encoding import DecodingError, decoder
from wiretape.contract.contract_facts import ContractChoice, detected_contracts
from wiretape.errors import InputError
from wiretape.files import file_errors
from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording.formats import FormatReader
from wiretape.recording.recording_builder import (
    RecordingMetadata,
    RecordingSource,
    observe_body,
    order_observations,
)
from wiretape.recording.recording_reader import Recording
from wiretape.recording.table_rows import Exchange
from wiretape.safe_text import printable
from wiretape.sse import EVENT_STREAM

_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:(?:data|event|id|retry):|:)")
_NOTE = (
    "The file contains only the bytes of a stream. The request ({}) and the start of the response are made up, and all "
    "events get the time at which the file was last changed: rules do not judge the request, and findings about gaps "
    "mean nothing."
)
_PART = 1 << 16
_SCHEMES = ("http", "https")


def default_url(contracts: ContractChoice) -> str:
    """Return the assumed URL of a stream."""
    return f"http://127.0.0.1{contracts.example_target}"


def read(path: Path, url: str | None = None, contracts: ContractChoice | None = None) -> RecordingSource:
    """Start to read a stream that came from `url`, by default of the first of the contracts.  Raises InputError."""
    example = default_url(contracts or detected_contracts())
    url = example if url is None else url
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _SCHEMES and bool(parts.netloc) and url.isascii()
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f"Invalid URL {printable(url)}: expected the URL of a stream, for example {example}.")
    with file_errors(path):
        written_ns = path.stat().st_mtime_ns
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    request = RequestStarted(
        1, written_ns, "", "GET", parts.scheme, parts.netloc, target, "HTTP/1.1", (), is_invented=True
    )
    metadata = RecordingMetadata("", written_ns)
    observations = order_observations([_observations(path, request)], written_ns)
    return RecordingSource(metadata, observations, notes=[_NOTE.format(printable(url))])


def _observations(path: Path, request: RequestStarted) -> Iterator[Observation]:
    now_ns = request.time_ns
    yield request
    yield RequestEnded(1, now_ns)
    yield ResponseStarted(1, now_ns, 200, "OK", "HTTP/1.1", (("Content-Type", EVENT_STREAM),))
    with file_errors(path), path.open("rb") as file:
        parts = iter(lambda: file.read(_PART), b"")
        yield from observe_body(1, Side.RESPONSE, ((now_ns, data) for data in parts))
    yield ExchangeEnded(1, now_ns, Ending.OPEN)


def write(recording: Recording, exchanges: Iterable[Exchange] | None) -> Iterator[bytes]:
    """Return the bytes of the only stream among the exchanges.  Raises InputError if there is not exactly one."""
    streams = [each for each in (recording.exchanges() if exchanges is None else exchanges) if each.is_stream]
    if len(streams) != 1:
        raise InputError(f"The sse format holds one stream, not {len(streams)}: choose an exchange.")
    return write_stream(recording, streams[0])


def write_stream(recording: Recording, exchange: Exchange, *, encoded: bool = False) -> Iterator[bytes]:
    """Return the bytes of a stream, decoded unless `encoded`.  Raises InputError if they cannot be decoded."""
    try:
        decoding = decoder(None if encoded else exchange.content_encoding)
        for part in recording.body(exchange.number, Side.RESPONSE):
            if isinstance(part, BytesArrived):
                yield decoding.feed(part.data)
    except DecodingError as error:
        raise InputError(
            f"The body of exchange {exchange.number} cannot be decoded ({error}): use --encoded to export it as it is."
        ) from None


READER = FormatReader(_BEGINNING.match, read)
