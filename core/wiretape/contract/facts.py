"""Facts of events, as the rules of a contract name them."""

from collections.abc import Callable, Sequence
from typing import Any

from wiretape.event import Event
from wiretape.event_format import Entity
from wiretape.patterns import MISSING, Pointer
from wiretape.rules.finding import describe, quote


class Fact:
    """A fact of events, by its name or a JSON pointer."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        if text not in _NAMED and not text.startswith("/"):
            names = ", ".join(_NAMED)
            raise ValueError(f"expected {names}, or a JSON pointer such as /response/id, got {text!r}")
        self._text = text
        self.read: Callable[[Event], Any]
        """Returns its value in an event, or MISSING."""
        if (named := _NAMED.get(text)) is not None:
            self.read = lambda event: MISSING if (value := named(event)) is None else value
        else:
            pointer = Pointer(text)
            self.read = lambda event: pointer.read(event.json)

    def __str__(self) -> str:
        return self._text

    def describe_lack(self, event: Event) -> str:
        """Return what an event that lacks the fact has instead, as a sentence for people."""
        event_format = event.format
        pointers = {"sequence": event_format.sequence, "cursor": event_format.cursor, "text": event.event_type.text}
        pointer = pointers.get(self._text)
        unfit = MISSING if pointer is None else pointer.read(event.json)
        if unfit is MISSING:
            return f"Expected `{self}`, got none."
        return f"Expected `{self}` to be {_TYPES[self._text]}, got {describe(unfit)}."


_TYPES = {"sequence": "an integer", "cursor": "a string or an integer", "text": "a string"}
_NAMED: dict[str, Callable[[Event], Any]] = {
    "event": lambda event: None if event.event_line is None else event.name,
    "id": lambda event: event.id,
    "type": lambda event: event.type,
    "cursor": lambda event: event.cursor,
    "sequence": lambda event: event.sequence,
    "text": lambda event: event.text,
}


def format_key(entity: Entity, key: Sequence[str | int]) -> str:
    """Return how messages name one entity: `item 0`."""
    return " ".join([entity.name, *(quote(str(part)) for part in key)])
