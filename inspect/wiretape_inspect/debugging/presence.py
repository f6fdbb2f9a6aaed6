"""Whether somebody is recording to a file just now."""

import fcntl
import os
from pathlib import Path


class Presence:
    """Looks at the lock that every recorder holds.

    The file stays open until `close`: closing it would drop the locks of everything in this process that reads it.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def recording(self) -> bool:
        """Whether somebody is: what is not there when nobody was, will not come any more."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Let the file go."""
        os.close(self._descriptor)
