"""Read the fields of requests: JSON bodies, idempotency keys, and the parameters of streams.  Raises Refusal."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from wiretape.contract import CURSOR_HEADER, EVENT_DELTAS, INVALID_REQUEST
from wiretape_replay.http_server.http_messages import LARGEST_BODY, HttpRequest, read_body
from wiretape_replay.responses.error_envelope import ErrorDetail
from wiretape_replay.service.engine.commands import Refusal

DEEPEST_JSON = 1024
"""How deep orjson reads nested values."""
_LONGEST_TEXT = 255
_GZIP = b"\x1f\x8b"
_ORJSON_LIMITS = {
    "depth recursion": f"nested more than {DEEPEST_JSON} deep",
    "infinity range": "a number is out of the range of a double",
    "surrogate": "a string contains half of a surrogate pair",
    "bom": "it begins with a byte order mark",
}
"""What orjson refuses although it is JSON, or nearly, by words of its messages."""
_EMPTY_OBJECT_DIGEST = read_body([b"{}"]).digest


def read_json_object(request: HttpRequest) -> Mapping[str, Any]:
    """The JSON object in the body of a request; an empty body is an empty object."""
    _check_encoding(request)
    text = request.body.text
    if text is None:
        raise invalid_field("$", f"expected {LARGEST_BODY // 1024 // 1024} MiB or less")
    if not text.strip():
        return {}
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise invalid_field("$", _json_problem(text, error)) from None
    if not isinstance(document, dict):
        raise invalid_field("$", "expected an object")
    return document


def _check_encoding(request: HttpRequest) -> None:
    """Refuse encoded bodies: the service does not decode them."""
    for name, value in request.headers:
        if name.lower() == "content-encoding" and value.strip().lower() not in {"", "identity"}:
            raise invalid_field(name, "bodies are not decoded, so expected none, or identity")


def _json_problem(text: bytes, error: orjson.JSONDecodeError) -> str:
    """Why a body cannot be read."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as bad:
        if text.startswith(_GZIP):
            return "expected JSON, got compressed data"
        return f"expected JSON in UTF-8; the byte at offset {bad.start} is not valid UTF-8"
    position = f"at line {error.lineno}, column {error.colno}"
    message = str(error).lower()  # differs between versions of orjson
    for words, problem in _ORJSON_LIMITS.items():
        if any(word in message for word in words.split()):
            return f"{problem}, {position}"
    return f"expected JSON; it is not valid {position}"


def body_digest(request: HttpRequest) -> bytes:
    """Equal for bodies that are equal as JSON; no body equals an empty object."""
    body = request.body
    return body.digest if body.text is None or body.text.strip() else _EMPTY_OBJECT_DIGEST


def text_field(body: Mapping[str, Any], name: str) -> str | None:
    """A string of the body; None if it is missing."""
    if name not in body:
        return None
    value = body[name]
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TEXT:
        raise invalid_field(name, f"expected a string of 1 to {_LONGEST_TEXT} characters")
    return value


def idempotency_key(request: HttpRequest, header: str) -> str | None:
    """The idempotency key of a request; None if it has none."""
    values = [value for name, value in request.headers if name.lower() == header.lower()]
    if not values:
        return None
    if len(values) > 1 or not 0 < len(values[0]) <= _LONGEST_TEXT:
        raise invalid_field(header, f"expected one value of 1 to {_LONGEST_TEXT} characters")
    return values[0]


def check_stream_parameters(request: HttpRequest) -> None:
    """Check the parameters of a stream."""
    pairs = parse_qsl(request.target.partition("#")[0].partition("?")[2], keep_blank_values=True)
    deltas = [value.lower() for name, value in pairs if name == EVENT_DELTAS]
    if any(value not in {"true", "false"} for value in deltas):
        raise invalid_field(EVENT_DELTAS, "expected true or false")
    if len(deltas) > 1:
        raise invalid_field(EVENT_DELTAS, "expected one value")
    if sum(name.lower() == CURSOR_HEADER.lower() for name, _ in request.headers) > 1:
        raise invalid_field(CURSOR_HEADER, "expected one value")


def invalid_field(path: str, reason: str) -> Refusal:
    """The refusal of a request because of one field."""
    field = "The body" if path == "$" else path
    return Refusal(INVALID_REQUEST, f"{field} is invalid: {reason}.", reasons=[ErrorDetail(path, reason)])
