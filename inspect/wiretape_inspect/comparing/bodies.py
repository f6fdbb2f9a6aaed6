"""Bodies that are no event streams, as what is compared of them."""

from hashlib import sha256
from typing import Any

from wiretape.content_encoding import DecodingError, decoder
from wiretape.json_path import JsonPath
from wiretape.observations import BytesArrived, Side, header
from wiretape.recording import Exchange, Recording
from wiretape_inspect.comparing.units import document_of

_MOST = 16 * 1024 * 1024
"""Decoded bytes of a body that are compared by what they say; longer ones by their hash."""
_SLICE = 64 * 1024


def body_document(recording: Recording, exchange: Exchange, side: Side, ignored: tuple[JsonPath, ...]) -> Any:
    """What a body says: JSON, or text, or a digest; None where there is none, which is not an empty text."""
    if not (exchange.request_bytes if side is Side.REQUEST else exchange.response_bytes):
        return None
    digest, decoded, whole = sha256(), bytearray(), True
    try:
        decoding = decoder(_encoding(exchange, side))
    except DecodingError:
        whole = False
    for part in recording.body(exchange.number, side):
        if not isinstance(part, BytesArrived):
            continue
        digest.update(part.data)
        try:
            for at in range(0, len(part.data) if whole else 0, _SLICE):
                decoded += decoding.feed(part.data[at : at + _SLICE])
                whole = whole and len(decoded) <= _MOST
        except DecodingError:
            whole = False
    if not whole:
        return f"SHA-256 {digest.hexdigest()}"
    return document_of(bytes(decoded), ignored) if decoded else None


def _encoding(exchange: Exchange, side: Side) -> str | None:
    return header(exchange.request.headers, "content-encoding") if side is Side.REQUEST else exchange.content_encoding
