"""Data of events that wait for their partner: in memory while they are few, in a file of no name when they are many."""

from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Self

_IN_MEMORY = 32 * 1024 * 1024


class Spool:
    """A context manager; what it keeps is gone with it."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed when the context is left
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def keep(self, data: bytes) -> tuple[int, int]:
        """Keep `data`; returns its ticket."""
        start = self._end
        self._file.seek(start)
        self._file.write(data)
        self._end = start + len(data)
        return start, len(data)

    def take(self, ticket: tuple[int, int]) -> bytes:
        """What was kept."""
        self._file.seek(ticket[0])
        return self._file.read(ticket[1])
