"""Notes of what passes, taken as cheaply as can be: what they mean is worked out later."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from wiretape.observations import Ending
from wiretape_replay.front.asked import Asked
from wiretape_replay.front.head import Head

_COST = 256
"""Bytes that a note takes beside those it is about."""


class Mark(Enum):
    """What needs no words."""

    REQUEST_WHOLE = "the request arrived whole"


@dataclass(frozen=True, slots=True)
class Asking:
    """A piece of a request's body."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Injected:
    """From here on an answer is not what it would have been."""

    fault: str


Content = bytes | Asked | Asking | Mark | Head | Injected | Ending
"""What a note is about; plain bytes are a piece of the answer's body, which most notes are about."""
Note = tuple[int, int, Content]
"""When (ns, on the clock of the notes), which exchange, what."""


class Notes:
    """What was noted and not yet looked at, in order."""

    def __init__(self, clock: Callable[[], int], taken: Callable[[], None]) -> None:
        """`taken` is called after each note."""
        self.waiting = 0
        """Bytes of memory that the notes take, roughly."""
        self.last_ns = 0
        """When the last note was taken."""
        self._notes: deque[Note] = deque()
        self._clock = clock
        self._taken = taken

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def first_ns(self) -> int:
        """When the first of the notes was taken."""
        return self._notes[0][0]

    def add(self, exchange: int, content: Content, size: int = 0) -> None:
        """Take a note about `size` bytes."""
        self.last_ns = now = self._clock()
        self._notes.append((now, exchange, content))
        self.waiting += size + _COST
        self._taken()

    def take(self, most: int) -> list[Note]:
        """The first notes, at most so many."""
        taken = [self._notes.popleft() for _ in range(min(most, len(self._notes)))]
        self.waiting -= sum(_COST + _size(content) for _, _, content in taken)
        return taken


class Ear:
    """Takes notes of one exchange: its Tap."""

    __slots__ = ("_exchange", "_notes")

    def __init__(self, notes: Notes, exchange: int, asked: Asked) -> None:
        self._notes = notes
        self._exchange = exchange
        notes.add(exchange, asked)

    def received(self, data: bytes) -> None:
        """See Tap."""
        self._notes.add(self._exchange, Asking(data), len(data))

    def whole(self) -> None:
        """See Tap."""
        self._notes.add(self._exchange, Mark.REQUEST_WHOLE)

    def began(self, head: Head) -> None:
        """See Tap."""
        self._notes.add(self._exchange, head)

    def sent(self, data: bytes) -> None:
        """See Tap."""
        self._notes.add(self._exchange, data, len(data))

    def injected(self, fault: str) -> None:
        """See Tap."""
        self._notes.add(self._exchange, Injected(fault))

    def ended(self, ending: Ending) -> None:
        """See Tap."""
        self._notes.add(self._exchange, ending)


def _size(content: Content) -> int:
    if isinstance(content, bytes):
        return len(content)
    return len(content.data) if isinstance(content, Asking) else 0
