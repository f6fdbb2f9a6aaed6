"""Durations, amounts and endings in the words that people read."""

from wiretape.labels import ending_label

__all__ = ["amount", "count", "digits", "duration", "ending_label", "moment"]
_DIGITS = 20
"""How many digits of a number are shown: as many as 64 bits may have."""


def duration(nanoseconds: int) -> str:
    """A length of time, to two or three digits: `0.4 ms`, `412 ms`, `1.9 s`, `2 min 3 s`, `1 h 2 min`."""
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


def moment(nanoseconds: int) -> str:
    """A time since the recording began: `12.304s`."""
    return f"{nanoseconds / 1e9:.3f}s"


def amount(size: int) -> str:
    """A number of bytes: `213 B`, `12.3 kB`, `5.2 MB`."""
    if size < 1000:
        return f"{size} B"
    for power, unit in ((1, "kB"), (2, "MB")):
        if size < 999.95 * 1000**power:
            return f"{size / 1000**power:.1f} {unit}"
    return f"{size / 1e9:.1f} GB"


def count(number: int, thing: str) -> str:
    """`1 event`, `2 events`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def digits(number: int) -> str:
    """A recorded number, its end replaced by an ellipsis where it is absurdly long."""
    text = str(number)
    return text if len(text) <= _DIGITS else f"{text[: _DIGITS - 1]}…"
