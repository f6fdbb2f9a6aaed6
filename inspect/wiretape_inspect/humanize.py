"""Format durations, times, sizes and integers for people."""

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
