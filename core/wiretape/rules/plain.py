"""Plain messages: ordinary in everything that one message shows of itself.

Nearly all messages are plain, and of a plain one many rules have nothing to say that they did not say of the last one
of its type.  So such rules (`plain=True` in the catalogue) are asked about the first plain message of each type only,
and their answer is counted for the others.
"""

import orjson

from wiretape.contract import EVENT_TYPES
from wiretape.json_reader import find_repeated_keys
from wiretape.rules.flaws import NO_FLAWS
from wiretape.rules.message import Message

ENCODED_TYPES = {name: name.encode() for name in EVENT_TYPES}
"""The event types as they stand on an `event` line."""
LONGEST_ID = 1024
"""Bytes that an id may have; servers give up on long headers, at 8 KiB or so."""


def is_plain(message: Message) -> bool:
    """Whether a message is a delta or a durable event with nothing about its framing and its JSON to remark on."""
    line = message.event_line
    if message.rare or line is None or ENCODED_TYPES.get(message.type or "") != line:
        return False
    if message.is_delta:
        if message.id_line is not None or message.carries_sequence:
            return False
    elif not (message.is_durable and _has_plain_id(message)):
        return False
    return message.flaws is NO_FLAWS and message.has_no_bad_byte and _has_plain_keys(message)


def _has_plain_id(message: Message) -> bool:
    identity = message.id
    if message.sequence is None or identity is None or not is_fit_for_header(identity):
        return False
    return bool(message.document.get("id") == identity)


def _has_plain_keys(message: Message) -> bool:
    """Whether no key comes twice; that is told at once where the JSON is written as usual."""
    try:
        return orjson.dumps(message.document) == message.data or (
            find_repeated_keys(message.data or b"", message.document) == []
        )
    except TypeError:
        return False


def is_fit_for_header(identity: str) -> bool:
    """Whether an id comes back unharmed in a header: printable ASCII, without outer space, and not too long."""
    return (
        identity.isascii() and identity.isprintable() and identity == identity.strip() and len(identity) <= LONGEST_ID
    )
