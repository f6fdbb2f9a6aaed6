"""The styles of output on a terminal by name, and whether the environment turns them on or off."""

import os

STYLES = {
    "head": "bold",
    "key": "bold",
    "term": "cyan",
    "call": "cyan",
    "number": "cyan",
    "delta": "cyan",
    "dim": "dim",
    "id": "dim",
    "time column": "dim",
    "gap column": "dim",
    "long gap column": "yellow",
    "gap": "yellow",
    "good": "green",
    "bad": "red",
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold cyan",
}
"""The styles as rich writes them: red is for errors and failures only, green for success, yellow for attention."""

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def color_choice() -> bool | None:
    """Return whether the environment turns colors on or off; None if only terminals have them."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if os.environ.get("TERM") == "dumb" else None


def styled(text: str, name: str) -> str:
    """Return text with the escape sequences of a style; a name without a style changes nothing."""
    codes = ";".join(_CODES[word] for word in STYLES.get(name, "").split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def status_style(status: int | None) -> str:
    """Return the style of a status code, or of a response that is missing."""
    return "good" if status and 200 <= status < 300 else "" if status and status < 400 else "bad"
