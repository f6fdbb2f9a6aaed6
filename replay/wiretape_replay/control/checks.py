"""What is handed to operations from Python, or over HTTP, checked.  Each function raises InputError."""

from collections.abc import Collection
from enum import StrEnum
from typing import TypeVar

from wiretape.contract import EVENT_TYPES
from wiretape.errors import InputError
from wiretape.rules import CATALOGUE
from wiretape.safe_text import closest_match, shorten
from wiretape.toml import hint
from wiretape_replay.session.breakpoints import Breakpoint

_Choice = TypeVar("_Choice", bound=StrEnum)


def one_of(choices: type[_Choice], value: str, what: str) -> _Choice:
    """One of the words."""
    try:
        return choices(value)
    except ValueError:
        raise InputError(f"{what} has to be one of {', '.join(choices)}, not {_quoted(value)}.") from None


def whole(value: object, what: str, least: int | None = None, most: int | None = None) -> None:
    """Refuse what is no whole number, or none from `least` to `most`; None is let through."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{what} has to be a whole number, not {_quoted(value)}.")
    if (least is not None and value < least) or (most is not None and value > most):
        raise InputError(f"{what} has to be a whole number from {least} to {most}, not {value}.")


def number(value: object, what: str) -> None:
    """Refuse what is no number; None is let through."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InputError(f"{what} has to be a number, not {_quoted(value)}.")


def text(value: object, what: str) -> None:
    """Refuse what is no text; None is let through."""
    if value is not None and not isinstance(value, str):
        raise InputError(f"{what} has to be a text, not {_quoted(value)}.")


def point(given: Breakpoint) -> None:
    """Refuse a breakpoint of other values than it can have."""
    text(given.type, "The type of a breakpoint")
    whole(given.sequence, "The sequence of a breakpoint")
    text(given.tool_call_id, "The tool call of a breakpoint")
    text(given.finding, "The finding of a breakpoint")


def event_type(wanted: str | None, recorded: Collection[str]) -> None:
    """Refuse a type that neither the service nor the log has; one with `*` may stand for what is to come."""
    if wanted is not None and "*" not in wanted and wanted not in EVENT_TYPES and wanted not in recorded:
        guess = hint(wanted, EVENT_TYPES)
        raise InputError(f"There is no event type {_quoted(wanted)}{guess}{'' if guess.endswith('?') else '.'}")


def finding(wanted: str | None, recorded: Collection[str]) -> None:
    """Refuse the beginning of a code that no rule has, and no finding of the log."""
    if not wanted or any(code.startswith(wanted) for code in (*CATALOGUE, *recorded)):
        return
    large = wanted.upper()
    similar = large if any(code.startswith(large) for code in CATALOGUE) else closest_match(large, CATALOGUE)
    raise InputError(f"Unknown rule code {_quoted(wanted)}{f', did you mean {similar}?' if similar else '.'}")


def _quoted(value: object) -> str:
    return shorten(repr(value), 60)
