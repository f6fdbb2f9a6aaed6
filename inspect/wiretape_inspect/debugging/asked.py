"""What a request of the page asks for, read from its query."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from aiohttp import web

from wiretape.errors import InputError
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import shorten

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class NotThereError(InputError):
    """There is nothing of the name or number that was asked for."""


def only(request: web.Request, known: Iterable[str]) -> None:
    """Refuse every other parameter, and any that comes twice.  Raises InputError."""
    for name in request.query:
        if name not in known or len(request.query.getall(name)) > 1:
            raise InputError(f"There is no parameter {shorten(name, 60)} here, or it came twice.")


def number(request: web.Request, name: str) -> int:
    """A parameter that is a number.  Raises InputError."""
    text = request.query.get(name)
    if text is None:
        raise InputError(f"The parameter {name} is missing.")
    if _NUMBER.fullmatch(text) is None:
        raise InputError(
            f"The parameter {name} has to be a whole number of at most 18 digits, not {shorten(text, 60)}."
        )
    return int(text)


def optional(request: web.Request, name: str) -> int | None:
    """A number that may be left out.  Raises InputError."""
    return number(request, name) if name in request.query else None


@contextmanager
def to_be_there() -> Iterator[None]:
    """What is looked for has to be there: raises NotThereError where it is not."""
    try:
        yield
    except InputError as error:
        raise NotThereError(error.message) from None


def exchange(recording: Recording, number: int) -> Exchange:
    """The exchange of that number.  Raises NotThereError."""
    with to_be_there():
        return recording.exchange(number)


def stream(recording: Recording, number: int) -> Exchange:
    """The same, which has to be an event stream."""
    found = exchange(recording, number)
    if not found.is_stream:
        raise NotThereError(f"Exchange {number} is no event stream.")
    return found
