"""Rows of a damaged SQLite file, read from its pages without SQLite.

SQLite needs the header, the schema and the pages that lead to a row, and would run SQL of the file. Here every page is
read by itself. The file format is described at https://sqlite.org/fileformat2.html.
"""

from collections.abc import Iterator
from typing import BinaryIO

Value = int | float | str | bytes | None
Row = list[Value]
"""The values of a row; an INTEGER PRIMARY KEY is None."""

_PAGE_SIZE = 4096
"""The page size of recordings, if the header does not contain a valid one."""
_PAGE_SIZES = {1 << exponent for exponent in range(9, 17)}
_TABLE_LEAF = 0x0D
_JOURNAL_HEADER, _FRAME_HEADER = 32, 24
_INTEGER_SIZES = (0, 1, 2, 3, 4, 6, 8)
_FLOAT, _ZERO, _ONE, _BLOB = 7, 8, 9, 12
"""Serial types of values; from `_BLOB` on, even ones are blobs and odd ones texts."""


class DamagedRowError(Exception):
    """A row contradicts itself, or a part of it is missing."""


class SqlitePages:
    """The pages of a SQLite file and of the journal (WAL) beside it, if there is one."""

    def __init__(self, file: BinaryIO, journal: BinaryIO | None) -> None:
        """Both files must stay open.  Raises OSError."""
        self._file, self._journal = file, journal
        self._size = self._page_size()
        self._in_journal = self._journal_pages()
        in_file = -(-file.seek(0, 2) // self._size)
        self._count = max([in_file, *(number for number in self._in_journal if number <= 2 * in_file + 10_000)])
        self._overflow_read = bytearray(self._count + 1)
        self.damaged_rows = 0
        """How many rows could not be read."""

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the row id and the values of each row of each table, in no particular order."""
        for number in range(1, self._count + 1):
            page = self._page(number)
            head = 100 if number == 1 else 0
            if len(page) < head + 8 or page[head] != _TABLE_LEAF:
                continue
            room = self._size
            for index in range(min(int.from_bytes(page[head + 3 : head + 5], "big"), self._size // 2)):
                pointer = head + 8 + 2 * index
                start = int.from_bytes(page[pointer : pointer + 2], "big")
                try:
                    row_id, payload, local = self._cell(page, start)
                    row = _values(payload)
                except (DamagedRowError, IndexError):
                    self.damaged_rows += 1
                    continue
                # Cells that overlap would multiply the size of a hostile file.
                room -= local
                if room < 0:
                    break
                yield row_id, row

    def _page_size(self) -> int:
        self._file.seek(16)
        sizes = [int.from_bytes(self._file.read(2), "big")]
        if self._journal is not None:
            self._journal.seek(8)
            sizes.append(int.from_bytes(self._journal.read(4), "big"))
        sizes = [65536 if size == 1 else size for size in sizes]
        return next((size for size in sizes if size in _PAGE_SIZES), _PAGE_SIZE)

    def _journal_pages(self) -> dict[int, int]:
        """Return where the journal contains the latest committed version of a page, by the number of the page."""
        found: dict[int, int] = {}
        uncommitted: dict[int, int] = {}
        if self._journal is None:
            return found
        offset, salt = _JOURNAL_HEADER, None
        self._journal.seek(offset)
        while len(head := self._journal.read(_FRAME_HEADER)) == _FRAME_HEADER:
            # Frames with another salt than the first are left from an earlier use of the journal.
            salt = salt or head[8:16]
            if head[8:16] == salt:
                uncommitted[int.from_bytes(head[:4], "big")] = offset + _FRAME_HEADER
                if any(head[4:8]):
                    found |= uncommitted
                    uncommitted.clear()
            offset += _FRAME_HEADER + self._size
            self._journal.seek(offset)
        return found

    def _page(self, number: int) -> bytes:
        """Return a page; shorter if the file ends within it."""
        offset = self._in_journal.get(number)
        if offset is not None and self._journal is not None:
            self._journal.seek(offset)
            return self._journal.read(self._size)
        self._file.seek((number - 1) * self._size)
        return self._file.read(self._size)

    def _cell(self, page: bytes, start: int) -> tuple[int, bytes, int]:
        """Return the row id, the payload, and the number of its bytes that are in the page itself.

        The payload ends early if its other pages are missing.
        """
        size, at = _varint(page, start)
        row_id, at = _varint(page, at)
        most = self._size - 35
        local = size
        if size > most:
            least = (self._size - 12) * 32 // 255 - 23
            local = least + (size - least) % (self._size - 4)
            if local > most:
                local = least
        parts = [page[at : at + local]]
        if len(parts[0]) < local or size > self._count * self._size:
            raise DamagedRowError
        rest, following = size - local, page[at + local : at + local + 4]
        while rest > 0:
            number = int.from_bytes(following, "big")
            if not 0 < number <= self._count or self._overflow_read[number]:
                break
            self._overflow_read[number] = 1
            overflow = self._page(number)
            following, part = overflow[:4], overflow[4 : 4 + rest]
            parts.append(part)
            rest -= self._size - 4
        return _signed(row_id), b"".join(parts), max(local, 1)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 1 to 9 bytes, and the offset after it."""
    number = 0
    for place in range(at, at + 8):
        number = number << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return number, place + 1
    return number << 8 | data[at + 8], at + 9


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _values(payload: bytes) -> Row:
    """Return the values of a record, of which the last can be cut off.  Raises DamagedRowError and IndexError."""
    end, at = _varint(payload, 0)
    body = end
    row: Row = []
    while at < end:
        kind, at = _varint(payload, at)
        value, body = _value(payload, kind, body)
        row.append(value)
    if at != end or body < len(payload):
        raise DamagedRowError
    return row


def _value(payload: bytes, kind: int, at: int) -> tuple[Value, int]:
    """Return a value, and the offset after it."""
    if kind == 0:
        return None, at
    if kind in {_ZERO, _ONE}:
        return kind - _ZERO, at
    # Recordings contain no floats.
    if kind in {_FLOAT, 10, 11}:
        raise DamagedRowError
    size = _INTEGER_SIZES[kind] if kind < _FLOAT else (kind - _BLOB) // 2
    data = payload[at : at + size]
    if len(data) < size and (kind < _BLOB or kind % 2):
        raise DamagedRowError
    if kind < _FLOAT:
        return int.from_bytes(data, "big", signed=True), at + size
    if kind % 2 == 0:
        return data, at + size
    # Headers are latin-1, in which the replacement character of Unicode does not exist.
    return data.decode(errors="replace").replace("\N{REPLACEMENT CHARACTER}", "?"), at + size
