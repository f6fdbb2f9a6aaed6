"""What the replay and the clients of its control API both need to know."""

from wiretape.errors import InputError
from wiretape.recording import redact_urls
from wiretape.safe_text import shorten

CONTROL_ROOT = "/_wiretape/"
"""The beginning of every path of the control API."""
TOKEN_HEADER = "X-Wiretape-Token"  # noqa: S105 - a name
DEFAULT_WAIT_S = 30.0
LONGEST_WAIT_S = 600.0
MOST_STEPS = 100_000


def replay_url_error(url: str) -> InputError:
    """The error for a URL that cannot be the URL of a replay."""
    return InputError(
        f"Invalid replay URL '{shorten(redact_urls(url))}': expected the URL printed by the replay, such as http://127.0.0.1:8090."
    )


def check_token(token: str) -> str:
    """Return a control token if a header can carry it.  Raises InputError."""
    if not token or not token.isascii() or not token.isprintable() or token != token.strip():
        raise InputError("Invalid control token: expected printable ASCII without leading or trailing spaces.")
    return token
