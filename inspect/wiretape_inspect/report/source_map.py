"""Lines and columns of findings, if the recording is a text file: a tape."""

from bisect import bisect_right
from pathlib import Path

from wiretape.content_encoding import is_identity
from wiretape.observations import Side
from wiretape.recording import Exchange
from wiretape.recording.formats.registry import detect_format
from wiretape.recording.schema import is_sqlite_file
from wiretape.rules import Finding, Party

LineAndColumn = tuple[int, int]


class SourceMap:
    """Finds lines and columns in a recording's file; none if it is a database."""

    def __init__(self, path: Path) -> None:
        """Read the positions in the file.  Raises InputError."""
        self._heads: dict[tuple[int, Side], LineAndColumn] = {}
        self._starts: dict[int, list[int]] = {}
        self._parts: dict[int, list[LineAndColumn]] = {}
        format_ = None if is_sqlite_file(path) else detect_format(path)
        find_positions = format_.reader().positions if format_ is not None else None
        for position in find_positions(path) if find_positions is not None else ():
            if position.start is None:
                self._heads[position.exchange, position.side] = position.line, position.column
            elif position.side is Side.RESPONSE:
                self._starts.setdefault(position.exchange, []).append(position.start)
                self._parts.setdefault(position.exchange, []).append((position.line, position.column))

    @property
    def is_text(self) -> bool:
        """Whether the file has lines."""
        return bool(self._heads)

    def find(self, finding: Finding, exchange: Exchange) -> LineAndColumn | None:
        """Return the line and the column of what a finding is about; None if the recording is a database.

        That is where its first byte is, or else the request if the client broke the rule, or else the response.
        """
        starts = self._starts.get(exchange.number)
        if finding.byte_offset is not None and starts and is_identity(exchange.content_encoding):
            return self._parts[exchange.number][max(bisect_right(starts, finding.byte_offset) - 1, 0)]
        request = self._heads.get((exchange.number, Side.REQUEST))
        return request if finding.side is Party.CLIENT else self._heads.get((exchange.number, Side.RESPONSE), request)
