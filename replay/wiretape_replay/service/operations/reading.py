"""What requests say beside their paths.  Raises Refusal where it cannot be understood."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from wiretape.contract import CURSOR_HEADER, EVENT_DELTAS, INVALID_REQUEST
from wiretape_replay.http_server.http_messages import LARGEST_BODY, HttpRequest
from wiretape_replay.http_server.http_messages import read_body as comparable
from wiretape_replay.responses.error_envelope import ErrorDetail
from wiretape_replay.service.engine.commands import Refusal

DEEPEST = 1024
"""How deep orjson reads what is nested."""
_LONGEST_KEY = 255
_GZIP = b"\x1f\x8b"
_WHY = {
    "depth recursion": f"it can be nested {DEEPEST} deep, and is deeper",
    "infinity range": "it can hold no number that a double cannot, and has one",
    "surrogate": "it can hold no half of a surrogate pair, and has one",
    "bom": "it can have no byte order mark, and has one",
}
"""What orjson does not take although it is JSON, or nearly, by words that it says then."""
_EMPTY = comparable([b"{}"]).digest


def read_body(asked: HttpRequest) -> Mapping[str, Any]:
    """The JSON object that a request carries; an empty body is an empty object."""
    _check_encoding(asked)
    if asked.body.text is None:
        raise invalid("$", f"it has to be of {LARGEST_BODY // 1024 // 1024} MiB or less")
    if not asked.body.text.strip():
        return {}
    try:
        document = orjson.loads(asked.body.text)
    except orjson.JSONDecodeError as error:
        raise invalid("$", _why_no_json(asked.body.text, error)) from None
    if not isinstance(document, dict):
        raise invalid("$", "it has to be an object")
    return document


def _check_encoding(asked: HttpRequest) -> None:
    """Refuse what is encoded, whether it is or not: nobody decodes it."""
    for name, value in asked.headers:
        if name.lower() == "content-encoding" and value.strip().lower() not in {"", "identity"}:
            raise invalid(name, "bodies are read as they are, so there can be no other than identity")


def _why_no_json(text: bytes, error: orjson.JSONDecodeError) -> str:
    """What is wrong with a body that cannot be read."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as bad:
        if text.startswith(_GZIP):
            return "it has to be JSON, and is compressed"
        return f"it has to be JSON in UTF-8, and is no UTF-8 at byte {bad.start}"
    place = f"at line {error.lineno}, column {error.colno}"
    said = str(error).lower()  # what orjson says differs by its version
    for words, why in _WHY.items():
        if any(word in said for word in words.split()):
            return f"{why} {place}"
    return f"it has to be JSON, and is none {place}"


def payload(asked: HttpRequest) -> bytes:
    """The same for bodies that say the same, as an empty body and an empty object do."""
    return asked.body.digest if asked.body.text is None or asked.body.text.strip() else _EMPTY


def text_in(body: Mapping[str, Any], name: str) -> str | None:
    """A text of the body; None when it is not there."""
    if name not in body:
        return None
    value = body[name]
    if not isinstance(value, str) or not value or len(value) > _LONGEST_KEY:
        raise invalid(name, f"it has to be a text of 1 to {_LONGEST_KEY} characters")
    return value


def idempotency_key(asked: HttpRequest, name: str) -> str | None:
    """The idempotency key of a request; None when it has none."""
    values = [value for header, value in asked.headers if header.lower() == name.lower()]
    if not values:
        return None
    if len(values) > 1 or not 0 < len(values[0]) <= _LONGEST_KEY:
        raise invalid(name, f"there can be one, of 1 to {_LONGEST_KEY} characters")
    return values[0]


def check_stream(asked: HttpRequest) -> None:
    """Whether the parameters of a stream are what they can be."""
    pairs = parse_qsl(asked.target.partition("#")[0].partition("?")[2], keep_blank_values=True)
    deltas = [value.lower() for name, value in pairs if name == EVENT_DELTAS]
    if any(value not in {"true", "false"} for value in deltas):
        raise invalid(EVENT_DELTAS, "it has to be true or false")
    if len(deltas) > 1:
        raise invalid(EVENT_DELTAS, "there can be one")
    cursors = [value for name, value in asked.headers if name.lower() == CURSOR_HEADER.lower()]
    if len(cursors) > 1:
        raise invalid(CURSOR_HEADER, "there can be one")


def invalid(path: str, reason: str) -> Refusal:
    """What is refused for what it says at one place."""
    where = "The body" if path == "$" else path
    return Refusal(INVALID_REQUEST, f"{where} is not as it should be: {reason}.", reasons=[ErrorDetail(path, reason)])
