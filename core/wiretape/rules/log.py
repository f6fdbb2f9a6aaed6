"""The durable events of one session that were seen, on whatever connection: what a replay is held against.

Of very many the oldest are forgotten; what is asked about those is then unknown, not wrong.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import orjson

from wiretape.rules.message import Message

MOST_EVENTS = 50_000
"""How many events of one session are remembered."""
LEAST_EVENTS = 200
"""How many of a session are remembered even when there are too many in all."""
_WHOLE_FLOAT = re.compile(rb"(?<=[:\[,])(-?\d+)\.0(?=[,\]}])")


class Known(NamedTuple):
    """What is remembered of a durable event."""

    sequence: int | None
    first_ns: int
    """When it was first seen."""
    fingerprint: int | None
    """Stands for its JSON; None when that could not be compared."""


@dataclass(slots=True)
class Budget:
    """How many events all sessions together remember."""

    most: int = 200_000
    events: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether something has to be forgotten."""
        return self.events > self.most


class EventLog:
    """The durable events of one session, by their id, in the order in which they were first seen."""

    __slots__ = ("_ascending", "_budget", "_highest", "events", "floor", "forgotten", "intruders", "owners")

    def __init__(self, budget: Budget) -> None:
        self.events: dict[str, Known] = {}
        self.owners: dict[int, str] = {}
        """For each sequence the first id that carried it."""
        self.intruders: dict[int, set[str]] = {}
        """For each sequence the other ids that were seen to carry it."""
        self.floor: int | None = None
        """The highest sequence among the events that were forgotten."""
        self.forgotten = False
        """Whether any were."""
        self._budget = budget
        self._highest: int | None = None
        self._ascending = True

    def known(self, message: Message) -> Known | None:
        """What was remembered of the event when it came first."""
        return None if message.id is None else self.events.get(message.id)

    def is_new(self, message: Message) -> bool:
        """Whether the event is certain to be seen for the first time."""
        identity, sequence = message.id, message.sequence
        if identity is not None and identity in self.events:
            return False
        if sequence is None:
            return identity is not None and not self.forgotten
        if identity is None:
            return self._highest is None or sequence > self._highest
        return self.floor is None or sequence > self.floor

    def add(self, message: Message) -> None:
        """A new event was seen, and all rules have seen it."""
        identity, sequence = message.id, message.sequence
        if sequence is not None:
            if self._highest is None or sequence > self._highest:
                self._highest = sequence
            else:
                self._ascending = False
        if identity is None:
            return
        self.events[identity] = Known(sequence, message.time_ns, fingerprint(message))
        if sequence is not None and self.owners.setdefault(sequence, identity) != identity:
            self.intruders.setdefault(sequence, set()).add(identity)
        self._budget.events += 1
        if len(self.events) > MOST_EVENTS or (self._budget.is_spent and len(self.events) > LEAST_EVENTS):
            self._forget(len(self.events) // 2)

    def after(self, sequence: int, before_ns: int) -> dict[str, int]:
        """The sequence of each event behind `sequence` that was first seen before `before_ns`, in ascending order."""
        return dict(sorted(self._after(sequence, before_ns), key=itemgetter(1)))

    def release(self) -> None:
        """The session is forgotten."""
        self._budget.events -= len(self.events)

    def _after(self, sequence: int, before_ns: int) -> Iterator[tuple[str, int]]:
        for identity, known in reversed(self.events.items()):
            if known.sequence is not None and known.sequence > sequence:
                if known.first_ns < before_ns:
                    yield identity, known.sequence
            elif self._ascending and known.sequence is not None:
                return

    def _forget(self, count: int) -> None:
        for identity in list(islice(self.events, count)):
            sequence = self.events.pop(identity).sequence
            if sequence is not None:
                self.floor = sequence if self.floor is None else max(self.floor, sequence)
                self.owners.pop(sequence, None)
                self.intruders.pop(sequence, None)
        self._budget.events -= count
        self.forgotten = True


def fingerprint(message: Message) -> int | None:
    """A number that is the same for equal JSON values, whatever their spelling; None for what cannot be compared.

    It differs from one process to the next.
    """
    try:
        text = orjson.dumps(message.document, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        return _careful_fingerprint(message)
    # JSON does not tell 1 from 1.0.
    return hash(_WHOLE_FLOAT.sub(rb"\1", text) if b".0" in text else text)


def _careful_fingerprint(message: Message) -> int | None:
    """For lone surrogates, integers beyond 64 bits, and deep nesting."""
    try:
        return hash(json.dumps(message.document, sort_keys=True))
    except (RecursionError, ValueError):
        return None
