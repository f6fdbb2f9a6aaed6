"""Durations, times, sizes and integers: format them for people, and parse durations, sizes and speeds."""

import math
import re

import click

from wiretape.errors import InputError
from wiretape.safe_text import printable

_DURATION = re.compile(r"(\d{1,15})(?:\.(\d{1,9}))?(ns|us|ms|s|min|h)", re.ASCII)
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000, "h": 3_600_000_000_000}
_SIZE = re.compile(r"(\d+)\s*([kmg]?)i?b?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MAX_DIGITS = 20
"""Digits of an integer that are shown: as many as a 64-bit integer has."""


def format_duration(nanoseconds: int) -> str:
    """Format a duration to two or three digits: `0.4 ms`, `412 ms`, `1.9 s`, `2 min 3 s`, `1 h 2 min`."""
    seconds = nanoseconds / 1e9
    if seconds < 0.0095:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_delay(later_ns: int) -> str:
    """Return how much later or earlier something came: `1.2 s later`."""
    return f"{format_duration(abs(later_ns))} {'later' if later_ns > 0 else 'earlier'}"


def format_time(nanoseconds: int) -> str:
    """Format a time since the recording began: `12.304s`."""
    return f"{nanoseconds / 1e9:.3f}s"


def format_size(size: int) -> str:
    """Format a number of bytes: `213 B`, `12.3 kB`, `5.2 MB`."""
    if size < 1000:
        return f"{size} B"
    for power, unit in ((1, "kB"), (2, "MB")):
        if size < 999.95 * 1000**power:
            return f"{size / 1000**power:.1f} {unit}"
    return f"{size / 1e9:.1f} GB"


def format_integer(number: int) -> str:
    """Format a recorded integer; an ellipsis replaces the end of an absurdly long one."""
    text = str(number)
    return text if len(text) <= _MAX_DIGITS else f"{text[: _MAX_DIGITS - 1]}…"


def parse_duration(text: str) -> int:
    """Return a duration such as `1.5s` in nanoseconds.  Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("expected a duration with a unit (ns, us, ms, s, min, h), such as >1s or 200ms..2s")
    scale, fraction = _UNITS[match[3]], match[2] or ""
    return int(match[1]) * scale + int(fraction.ljust(9, "0")) * scale // 1_000_000_000


def parse_size(text: str) -> int:
    """Parse a number of bytes such as 256M.  Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"expected a size such as 64M or 1G, got {text!r}")
    return int(match[1]) * _SIZE_UNITS[match[2].lower()]


def parse_speed(speed: str | float) -> float:
    """Parse `max`, which is infinity, or a number greater than 0.  Raises InputError."""
    try:
        factor = math.inf if speed == "max" else float(speed)
    except ValueError:
        factor = math.nan
    if not factor > 0 or (factor == math.inf and isinstance(speed, str) and speed != "max"):
        raise InputError(f"Invalid speed {speed!r}: expected max or a number greater than 0, such as 1 or 10.")
    return factor


class Duration(click.ParamType[int]):
    """A duration with its unit, in nanoseconds."""

    name = "duration"

    def __init__(self, example: str) -> None:
        """`example` is what an error message suggests."""
        self._example = example

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the value.  Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(str(value))
        except ValueError:
            shown = printable(str(value))
            self.fail(
                f"{shown!r} is not a duration: expected a number and a unit, such as {self._example}.", param, ctx
            )
