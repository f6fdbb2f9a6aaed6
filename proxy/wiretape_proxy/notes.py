"""What the event loop does for each chunk: as little as can be."""

from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from wiretape.observations import BytesLost, Observation, Side
from wiretape_proxy.wire import WORD, body_of, put, subject

Tap = Callable[[bytes], bytes | list[bytes]]
"""What mitmproxy calls with each chunk of a streamed body; it passes on what the tap returns."""
_NEVER = 1 << 63


def _nothing() -> None:
    """Nobody takes notes yet."""


class Notes:
    """A flat list of times, subjects and bytes, in the order of arrival (see `wiretape_proxy.wire`)."""

    def __init__(self) -> None:
        self.due_ns = _NEVER
        """When what is noted should have been taken."""
        self.overdue: Callable[[], None] = _nothing
        """Called with the first chunk that comes later."""
        self._notes: list[Any] = []

    def put(self, observation: Observation) -> None:
        """Note an observation that is no chunk; it happens now, whatever time it carries."""
        self.word(put(observation))

    def word(self, content: bytes) -> None:
        """Note something that is no chunk."""
        self._notes += (monotonic_ns(), WORD, content)

    def chunk(self, exchange: int, side: Side, data: bytes) -> None:
        """Note a chunk."""
        self._notes += (monotonic_ns(), subject(exchange, side), data)

    def tap(self, exchange: int, side: Side) -> Tap:
        """A tap that notes each chunk and hands it on unchanged."""
        # Three appends are faster than one of a tuple, and leave the garbage collector nothing to look at.
        note, now, about = self._notes.append, monotonic_ns, subject(exchange, side)

        def tap(data: bytes) -> bytes | list[bytes]:
            if not data:
                # The end, or an empty HTTP/2 frame within the body: b"" would end the body of an HTTP/1 client.
                return []
            moment = now()
            note(moment)
            note(about)
            note(data)
            if moment > self.due_ns:
                self.overdue()
            return data

        return tap

    def take(self) -> list[Any]:
        """All that was noted since the last time."""
        taken = self._notes[:]
        self._notes.clear()
        return taken


def without_chunks(notes: list[Any], why: str) -> list[Any]:
    """The notes with all chunks of a body replaced by one loss."""
    volumes = _volumes(notes)
    kept: list[Any] = []
    for index in range(0, len(notes), 3):
        time_ns, about, content = notes[index : index + 3]
        if about == WORD:
            kept += (time_ns, about, content)
        elif count := volumes.pop(about, 0):
            exchange, side = body_of(about)
            kept += (time_ns, WORD, put(BytesLost(exchange, 0, side, 0, count, why)))
    return kept


def volume(notes: list[Any]) -> int:
    """How many bytes of bodies there are in the notes."""
    return sum(_volumes(notes).values())


def _volumes(notes: list[Any]) -> dict[int, int]:
    found: dict[int, int] = {}
    for about, content in zip(notes[1::3], notes[2::3], strict=True):
        if about != WORD:
            found[about] = found.get(about, 0) + len(content)
    return found
