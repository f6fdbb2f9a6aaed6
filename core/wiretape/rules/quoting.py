"""Recorded values quoted in sentences: shortened, and safe to print."""

from functools import lru_cache

from wiretape.contract.schemas import Violation
from wiretape.safe_text import printable

_LONGEST = 60


def quote(text: str) -> str:
    """Return `text` between backquotes, on one line and shortened."""
    return f"`{printable(text[:_LONGEST])}…`" if len(text) > _LONGEST else f"`{printable(text)}`"


def quote_or_none(text: str | None) -> str:
    """Return `text` quoted, or the word `none`."""
    return "none" if text is None else quote(text)


def quote_bytes(value: bytes) -> str:
    """Return `value` quoted, with U+FFFD for bytes that are not UTF-8."""
    return quote(value[: 4 * _LONGEST + 4].decode("utf-8", "replace"))


def describe(value: object) -> str:
    """Describe a JSON value: strings and numbers in full, arrays and objects only by their type."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {quote(value)}"
        case int() | float():
            return f"the number {format_number(value)}"
        case dict():
            return "an object"
        case list():
            return "an array"
    return "no value"


def format_number(value: float) -> str:
    """Return a number in full, unless it is too long for a line."""
    return repr(value) if abs(value) < 10**40 else "of more than 40 digits"


def describe_violation(violation: Violation) -> str:
    """Return a sentence with the value that a schema expected and the actual one."""
    # A violation with a recorded value may have no hash, and seldom occurs twice.
    return _describe_missing(violation) if violation.got is ... else _describe_violation(violation)


def _describe_violation(violation: Violation) -> str:
    return f"Expected {violation.expected} as {quote(violation.where)}, got {describe(violation.got)}."


_describe_missing = lru_cache(256)(_describe_violation)
