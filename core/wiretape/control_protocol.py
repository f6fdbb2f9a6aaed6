"""What both ends of a replay's control interface have to know."""

from wiretape.errors import InputError
from wiretape.safe_text import shorten

ROOT = "/_wiretape/"
"""The beginning of every path of it."""
TOKEN_HEADER = "X-Wiretape-Token"  # noqa: S105 - a name
LONGEST_WAIT_S = 600.0
MOST_STEPS = 100_000
PATIENCE_S = 30.0
"""How long something is waited for where nothing else is said."""


def no_replay_error(url: str) -> InputError:
    """The error for a URL at which no replay can be."""
    return InputError(
        f"{shorten(url)!r} is no URL of a replay: give the one that it said, such as http://127.0.0.1:8090."
    )
