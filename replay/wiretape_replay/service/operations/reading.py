"""What requests say beside their paths.  Raises Refusal where it cannot be understood."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from wiretape.contract import CURSOR_HEADER, EVENT_DELTAS
from wiretape.contract.error_codes import INVALID_REQUEST
from wiretape_replay.answers.reasons import Reason
from wiretape_replay.front.asked import LARGEST_COMPARED, Asked
from wiretape_replay.front.asked import body_of as comparable
from wiretape_replay.service.engine import Refusal

_LONGEST_KEY = 255
_EMPTY = comparable([b"{}"]).digest


def body_of(asked: Asked) -> Mapping[str, Any]:
    """The JSON object that a request carries; an empty body is an empty object."""
    if asked.body.text is None:
        raise invalid("$", f"it has to be of {LARGEST_COMPARED // 1024 // 1024} MiB or less")
    if not asked.body.text.strip():
        return {}
    try:
        document = orjson.loads(asked.body.text)
    except orjson.JSONDecodeError:
        raise invalid("$", "it has to be JSON, in UTF-8 and not compressed") from None
    if not isinstance(document, dict):
        raise invalid("$", "it has to be an object")
    return document


def payload(asked: Asked) -> bytes:
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


def idempotency_key(asked: Asked, name: str) -> str | None:
    """The idempotency key of a request; None when it has none."""
    values = [value for header, value in asked.headers if header.lower() == name.lower()]
    if not values:
        return None
    if len(values) > 1 or not 0 < len(values[0]) <= _LONGEST_KEY:
        raise invalid(name, f"there can be one, of 1 to {_LONGEST_KEY} characters")
    return values[0]


def check_stream(asked: Asked) -> None:
    """Whether the parameters of a stream are what they can be."""
    pairs = parse_qsl(asked.target.partition("#")[0].partition("?")[2], keep_blank_values=True)
    for name, value in pairs:
        if name == EVENT_DELTAS and value.lower() not in {"true", "false"}:
            raise invalid(name, "it has to be true or false")
    cursors = [value for name, value in asked.headers if name.lower() == CURSOR_HEADER.lower()]
    if len(cursors) > 1:
        raise invalid(CURSOR_HEADER, "there can be one")


def invalid(path: str, reason: str) -> Refusal:
    """What is refused for what it says at one place."""
    where = "The body" if path == "$" else path
    return Refusal(INVALID_REQUEST, f"{where} is not as it should be: {reason}.", reasons=[Reason(path, reason)])
