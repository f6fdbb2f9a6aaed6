"""Make recorded text safe to print, and find the closest match of a mistyped word."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")

_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def escape_json(text: str) -> str:
    """Escape unsafe characters in JSON, or in any text that has them in quoted strings only."""
    if text.isascii() and "\x7f" not in text:
        return text
    # Strings in JSON contain no control characters below the space, and JSON needs its line ends.
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def printable(text: str) -> str:
    """Escape every character that could move the cursor, or color, reorder or break the line."""
    return _UNSAFE.sub(_escape, text)


def shorten(text: str, longest: int = 200) -> str:
    """Make `text` printable, and cut it after `longest` characters."""
    text = printable(text)
    return text if len(text) <= longest else text[:longest] + "…"


def closest_match(word: str, words: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """Return the word that is most similar to `word`, if one is similar enough: at least `cutoff`, from 0 to 1."""
    return next(iter(get_close_matches(word, list(words), n=1, cutoff=cutoff)), None)
