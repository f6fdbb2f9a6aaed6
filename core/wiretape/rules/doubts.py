"""Why a rule that came up could not be decided, in words that follow "inconclusive, for"."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """The outcome of a rule that came up, but what was recorded does not tell."""

    reason: str
    """Half a sentence: what is not known."""


MOST_DEEP: Final = 1024
"""How deep arrays and objects may be nested in JSON that is read; orjson sets the limit."""
MOST_DIGITS: Final = 4300
"""How many digits an integer may have in JSON that is read; Python sets the limit."""

UNSEEN: Final = Inconclusive("messages passed that were not recorded, cannot be decoded, or are over 16 MiB")
CUT: Final = Inconclusive("an answer was cut off, was not recorded in full, cannot be decoded, or is over 1 MiB")
TOO_MUCH: Final = Inconclusive(
    f"JSON was not read that is nested more than {MOST_DEEP:,} deep or has a number of more than {MOST_DIGITS:,} digits"
)
FORGOTTEN: Final = Inconclusive("so much had happened that the oldest of it was forgotten")
STILL_OPEN: Final = Inconclusive("an exchange was open when the recording ended")
UNKNOWN_CURSOR: Final = Inconclusive("the recording does not show the sequence of the cursor's event")
UNKNOWN_REPLAY: Final = Inconclusive("the recording does not show all that had to be replayed")
UNCLEAR_JSON: Final = Inconclusive("the JSON of an event cannot be compared: it is too deep, or not UTF-8")
UNKNOWN_START: Final = Inconclusive("the recording does not show all of the session from its first event on")
ANY_SESSION: Final = Inconclusive("events of several sessions may have the same id")
UNSEEN_RUN: Final = Inconclusive("the recording does not show whether a run had started or ended")
UNSEEN_CALL: Final = Inconclusive("the recording may not show all events of a tool call")
UNORDERED: Final = Inconclusive("of two events that came on different connections nobody knows which was first")
UNREAD: Final = Inconclusive("it is not certain which event the client had read last")
NO_CHANCE: Final = Inconclusive("the connection or the recording ended before the client could reconnect")
OTHER_KEY: Final = Inconclusive("the idempotency key may be in another header, or the request about another tool call")
OTHER_CALL: Final = Inconclusive("the request may be about another tool call")
