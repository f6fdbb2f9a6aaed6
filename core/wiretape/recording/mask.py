"""Credentials that come again in a body are overwritten there, wherever chunks and commits cut them."""

from wiretape.observations import BytesArrived, Side
from wiretape.recording.redact import Redactor

Place = tuple[int, Side]


class Masker:
    """Overwrites credentials in bodies before anything is stored or derived.

    Bytes at the end of a run that may be the beginning of a credential are held back until more of the body
    comes, and then count as part of the chunk that brought it.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: dict[Place, tuple[int, bytes]] = {}

    def arrive(self, run: BytesArrived) -> BytesArrived | None:
        """The run without credentials, as far as it can be let go."""
        if not self._redactor.longest:
            return run
        place = (run.exchange, run.side)
        start, held = self._held.pop(place, (run.start, b""))
        data = self._redactor.body(held + run.data)
        begun = self._redactor.begun(data)
        if not (held or begun):
            return run if data == run.data else BytesArrived(*place, run.start, data, run.ends, run.times)
        passing = data[: len(data) - begun]
        end = start + len(passing)
        if begun:
            self._held[place] = (end, data[len(passing) :])
        if not passing:
            return None
        ends = [*(before for before in run.ends if before < end), end]
        return BytesArrived(*place, start, passing, ends, run.times[: len(ends)])

    def release(self, exchange: int, after_ns: int) -> list[BytesArrived]:
        """What was held back of an exchange of which no more comes, with the times just after `after_ns`."""
        released = []
        for side in Side:
            start, held = self._held.pop((exchange, side), (0, b""))
            if held:
                after_ns += 1
                released.append(BytesArrived(exchange, side, start, held, (start + len(held),), (after_ns,)))
        return released

    def release_all(self, after_ns: int) -> list[BytesArrived]:
        """What is held back of any exchange."""
        released: list[BytesArrived] = []
        for exchange in dict.fromkeys(exchange for exchange, _ in self._held):
            released += self.release(exchange, after_ns + len(released))
        return released
