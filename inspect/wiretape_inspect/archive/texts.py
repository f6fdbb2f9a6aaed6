"""Bodies as strings of JSON, a piece at a time: text where they are UTF-8, base64 where they are not."""

import codecs
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from wiretape.content_encoding import DecodingError, decoder
from wiretape.observations import BytesArrived, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import escape_json


@dataclass(frozen=True, slots=True)
class Body:
    """A recorded body, looked through once."""

    recording: Recording
    exchange: Exchange
    side: Side
    encoding: str | None
    """The Content-Encoding to take off; None where there is none, or where it cannot be taken off."""
    size: int
    """Bytes once that is done."""
    utf8: bool
    trouble: str = ""
    """Why it cannot be decoded."""

    def pieces(self) -> Iterator[bytes]:
        """The inside of a JSON string that holds it, without the quotation marks."""
        data = _decoded(self.recording, self.exchange, self.side, self.encoding)
        return _text(data) if self.utf8 else _base64(data)

    def replaced(self) -> Iterator[bytes]:
        """The same as text whatever it is: what is no UTF-8 as U+FFFD."""
        return _text(_decoded(self.recording, self.exchange, self.side, self.encoding), "replace")


def body(recording: Recording, exchange: Exchange, side: Side) -> Body:
    """A body of an exchange."""
    head = exchange.request if side is Side.REQUEST else exchange.response
    encoding = header(head.headers, "content-encoding") if head else None
    try:
        size, utf8 = _measured(_decoded(recording, exchange, side, encoding))
    except DecodingError as error:
        size, utf8 = _measured(_decoded(recording, exchange, side, None))
        return Body(recording, exchange, side, None, size, utf8, str(error))
    return Body(recording, exchange, side, encoding, size, utf8)


def string(text: str) -> bytes:
    """The inside of a JSON string."""
    return escape_json(orjson.dumps(text)[1:-1].decode()).encode()


def _decoded(recording: Recording, exchange: Exchange, side: Side, encoding: str | None) -> Iterator[bytes]:
    decoding = decoder(encoding)
    for part in recording.body(exchange.number, side):
        if isinstance(part, BytesArrived):
            yield from decoding.slices(part.data)


def _measured(data: Iterable[bytes]) -> tuple[int, bool]:
    """How many bytes, and whether they are UTF-8."""
    text = codecs.getincrementaldecoder("utf-8")()
    size, utf8 = 0, True
    for part in data:
        size += len(part)
        utf8 = utf8 and _fits(text, part)
    return size, utf8 and _fits(text, b"", final=True)


def _fits(text: codecs.IncrementalDecoder, part: bytes, *, final: bool = False) -> bool:
    try:
        text.decode(part, final)
    except UnicodeDecodeError:
        return False
    return True


def _text(data: Iterable[bytes], errors: str = "strict") -> Iterator[bytes]:
    text = codecs.getincrementaldecoder("utf-8")(errors)
    for part in data:
        yield string(text.decode(part))
    yield string(text.decode(b"", final=True))


def _base64(data: Iterable[bytes]) -> Iterator[bytes]:
    left = b""
    for part in data:
        whole = left + part
        cut = len(whole) - len(whole) % 3
        yield b64encode(whole[:cut])
        left = whole[cut:]
    yield b64encode(left)
