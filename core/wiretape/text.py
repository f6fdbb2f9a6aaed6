"""Recorded text made safe to show on a terminal."""

import re

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def printable(text: str) -> str:
    """`text` with every character escaped that could move the cursor, colour, reorder or break the line."""
    return _UNSAFE.sub(_escape, text)


def shown(text: str, longest: int = 200) -> str:
    """`text` made printable, and cut after `longest` characters."""
    text = printable(text)
    return text if len(text) <= longest else text[:longest] + "…"
