"""Facts of events, as the rules of a contract name them."""

from collections.abc import Callable, Sequence
from typing import Any

from wiretape.event import Event
from wiretape.event_format import Entity
from wiretape.patterns import MISSING, Pointer
from wiretape.rules.finding import quote


class Fact:
    """A fact of events, by its name or a JSON pointer."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        if text not in _NAMED and not text.startswith("/"):
            names = ", ".join(FACT_NAMES)
            raise ValueError(f"expected {names}, or a JSON pointer such as /response/id, got {text!r}")
        self._text = text
        self.name = text
        """How messages call it: a pointer is written with dots."""
        self.read: Callable[[Event], Any]
        """Returns its value in an event, or MISSING."""
        if (named := _NAMED.get(text)) is not None:
            self.read = lambda event: MISSING if (value := named(event)) is None else value
        else:
            pointer = Pointer(text)
            self.name = pointer.name
            key = pointer.key
            if key is None and len(pointer.steps) == 2 and not any(map(str.isdigit, pointer.steps)):
                outer, inner = pointer.steps
                # Most pointers are like this, and a loop takes twice as long.
                self.read = lambda event: (
                    value.get(inner, MISSING) if type(value := event.document.get(outer)) is dict else MISSING
                )
            elif key is None:
                self.read = lambda event: pointer.read(event.value)
            else:
                self.read = lambda event: event.document.get(key, MISSING)

    def __str__(self) -> str:
        return self._text

    @property
    def types(self) -> tuple[str, ...]:
        """The JSON types that it can have; empty for all."""
        return _TYPES.get(self._text, ())

    def read_required(self, event: Event) -> Any:
        """Return its value where it is required: an empty id does not count as one."""
        value = self.read(event)
        return MISSING if value == "" and self._text == "id" else value

    def read_unfit(self, event: Event) -> Any:
        """Return what is where an event has the fact, also if it is of another type; otherwise MISSING."""
        event_format = event.format
        pointers = {"sequence": event_format.sequence, "cursor": event_format.cursor, "text": event.event_type.text}
        pointer = pointers.get(self._text)
        return self.read(event) if pointer is None else pointer.read(event.json)


_TYPES = {"sequence": ("integer",), "cursor": ("string", "integer"), "text": ("string",)}
_NAMED: dict[str, Callable[[Event], Any]] = {
    "event": lambda event: None if event.event_line is None else event.name,
    "id": lambda event: None if event.id_line is None else event.id_line.decode("utf-8", "replace"),
    "type": lambda event: event.type,
    "kind": lambda event: event.kind,
    "cursor": lambda event: event.cursor,
    "sequence": lambda event: event.sequence,
    "text": lambda event: event.text,
}
FACT_NAMES = tuple(_NAMED)
"""The facts that have a name."""


def format_key(entity: Entity, key: Sequence[str | int]) -> str:
    """Return how messages name one entity: `item 0`."""
    return " ".join([entity.name, *(quote(str(part)) for part in key)])
