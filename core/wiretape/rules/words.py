"""Recorded values put into sentences: cut short, and safe to print."""

from wiretape.contract.schemas import Violation
from wiretape.safe_text import printable

_LONGEST = 60


def quoted(text: str) -> str:
    """`text` between backquotes, on one line and not too long."""
    return f"`{printable(text[:_LONGEST])}…`" if len(text) > _LONGEST else f"`{printable(text)}`"


def or_none(text: str | None) -> str:
    """`text` quoted, or the word `none`."""
    return "none" if text is None else quoted(text)


def quoted_bytes(value: bytes) -> str:
    """`value` between backquotes, with U+FFFD for what is no UTF-8."""
    return quoted(value[: 4 * _LONGEST + 4].decode("utf-8", "replace"))


def described(value: object) -> str:
    """A value of a JSON document: a string or number itself, of anything else only what it is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {quoted(value)}"
        case int() | float():
            return f"the number {number(value)}"
        case dict():
            return "an object"
        case list():
            return "an array"
    return "no value"


def number(value: float) -> str:
    """A number in full, unless that would fill the line."""
    return repr(value) if abs(value) < 10**40 else "of more than 40 digits"


def sentence(violation: Violation) -> str:
    """What a schema expected at a place, and what came."""
    return f"Expected {violation.expected} as {quoted(violation.where)}, got {described(violation.got)}."
