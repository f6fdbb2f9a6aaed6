"""Disk space for a recording: what is left free while bodies are stored, so that a nearly full disk loses only bytes.

SQLite writes a commit to its journal first, and later merges the journal into the file; on a full disk, either can
fail.  So the blocks of both are allocated before each commit, and besides them a reserve.  If there is no room for
the bytes of bodies, they count as lost, and the reserve takes the rows about that: `WriteBatch.drop_bytes` in
`wiretape.recording.recording_writer`.
"""

import os
import sqlite3
import struct
from contextlib import suppress

RESERVE_BYTES = 1024 * 1024
"""Space that bytes of bodies leave free."""
_FRAME_HEAD = 24
_JOURNAL_HEAD = 32
# https://www.sqlite.org/walformat.html#the_wal_index_header
_INDEX_HEAD = struct.Struct("=14xHII")
_MERGED = struct.Struct("=I")
_MERGED_AT = 96


class DiskSpace:
    """Allocates blocks for the journal of a database, and for the file into which SQLite merges it.

    So what SQLite has accepted can be merged on a full disk, and no other program can take the reserve: it need not be
    released before it is used.  SQLite ignores what follows the end of its data in both files.
    """

    def __init__(self, connection: sqlite3.Connection, database: int) -> None:
        """`database` is a descriptor of the file of `connection`, which is in WAL mode.  Raises OSError."""
        # Reading opens the journal.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        _, _, path = connection.execute("PRAGMA database_list").fetchone()
        self._database = database
        self._journal = os.open(f"{path}-wal", os.O_RDWR)
        # Closing this would drop SQLite's locks, so it has to stay open as long as the connection.
        self._index = os.open(f"{path}-shm", os.O_RDONLY)
        self.has_room = True
        """Whether the disk is not known to be full."""

    def reserve(self, size: int = 0) -> None:
        """Allocate blocks for the next commit of up to `size` bytes, and the reserve.  Raises OSError."""
        self._allocate(size + RESERVE_BYTES, size + RESERVE_BYTES)

    def find_room(self, size: int) -> bool:
        """Set `has_room`: whether the disk has room for a commit of up to `size` bytes, and the reserve."""
        # The thread that derives rows looks at it meanwhile.
        try:
            self.reserve(size)
        except OSError:
            self.has_room = False
        else:
            self.has_room = True
        return self.has_room

    def has_reserve(self, size: int) -> bool:
        """Whether a commit of `size` bytes leaves half of the reserve in the journal."""
        with suppress(OSError):
            self._allocate(size + RESERVE_BYTES // 2, 0)
            return True
        return False

    def close(self) -> None:
        """Close the files, after the connection."""
        os.close(self._journal)
        os.close(self._index)

    def _allocate(self, for_journal: int, for_database: int) -> None:
        page, frames, pages = _INDEX_HEAD.unpack(os.pread(self._index, _INDEX_HEAD.size, 0))
        (merged,) = _MERGED.unpack(os.pread(self._index, _MERGED.size, _MERGED_AT))
        # Once all of the journal is merged, SQLite begins it again.
        used = _JOURNAL_HEAD + (frames * (page + _FRAME_HEAD) if merged < frames else 0)
        _extend(self._journal, used + for_journal)
        _extend(self._database, pages * page + for_database)


def _extend(descriptor: int, size: int) -> None:
    """Allocate the blocks of a file up to `size`, where the system can (macOS cannot).  Raises OSError."""
    missing = size - os.fstat(descriptor).st_size
    if missing > 0 and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, size - missing, missing)
