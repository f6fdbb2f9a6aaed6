"""Credentials that come again in a body are overwritten there, wherever chunks and commits cut them."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

from wiretape.observe import Side
from wiretape.recording.redact import Redactor
from wiretape.recording.segments import Segment

Place = tuple[int, Side]

_OVERLAPPING = (
    "SELECT id, start, bytes FROM segment WHERE exchange_id = ? AND response = ? AND start < ? ORDER BY start DESC"
)


class Masker:
    """Overwrites credentials in segments on their way into the file."""

    def __init__(self, redactor: Redactor, connection: sqlite3.Connection) -> None:
        self._redactor = redactor
        self._connection = connection
        self._tails: dict[Place, tuple[int, bytes]] = {}
        self._mended: list[tuple[Place, int, bytes]] = []

    def mask(self, segments: Sequence[Segment]) -> list[bytes]:
        """The bytes of each segment without credentials.  Segments of one body must be in order."""
        masked = [b"".join(segment.parts) for segment in segments]
        self._mended.clear()
        if not self._redactor.longest:
            return masked
        places: dict[Place, list[int]] = defaultdict(list)
        for index, segment in enumerate(segments):
            places[segment.exchange, segment.side].append(index)
        for place, indexes in places.items():
            begin = segments[indexes[0]].start
            data = self._mask_body(place, begin, b"".join(masked[index] for index in indexes))
            for index in indexes:
                start = segments[index].start - begin
                masked[index] = data[start : start + len(masked[index])]
        return masked

    def mend(self) -> None:
        """Overwrite what earlier commits stored of credentials that the last `mask` saw the rest of.

        Belongs into the transaction that stores the masked segments.  Raises sqlite3.Error.
        """
        for (exchange, side), start, data in self._mended:
            end = start + len(data)
            rows = self._connection.execute(_OVERLAPPING, (exchange, int(side is Side.RESPONSE), end))
            for row in rows.fetchall():
                if row["start"] + len(row["bytes"]) <= start:
                    break
                stored = bytearray(row["bytes"])
                low, high = max(start, row["start"]), min(end, row["start"] + len(stored))
                stored[low - row["start"] : high - row["start"]] = data[low - start : high - start]
                self._connection.execute("UPDATE segment SET bytes = ? WHERE id = ?", (bytes(stored), row["id"]))

    def forget(self, exchange: int) -> None:
        """The exchange is over."""
        for side in Side:
            self._tails.pop((exchange, side), None)

    def _mask_body(self, place: Place, begin: int, data: bytes) -> bytes:
        """`data`, which begins at offset `begin` of the body, masked together with the end of what came before."""
        tail_start, tail = self._tails.get(place, (begin, b""))
        if tail_start + len(tail) != begin:
            tail_start, tail = begin, b""
        masked = self._redactor.body(tail + data)
        if masked[: len(tail)] != tail:
            self._mended.append((place, tail_start, masked[: len(tail)]))
        keep = masked[-(self._redactor.longest - 1) :]
        self._tails[place] = (begin + len(data) - len(keep), keep)
        return masked[len(tail) :]
