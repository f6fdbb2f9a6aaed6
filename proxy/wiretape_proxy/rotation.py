"""Rotation: when a recording continues in a new file, the names of the files, and the command for closed ones."""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from wiretape.errors import RecordingError
from wiretape.files import path_exists
from wiretape.recording import Writer
from wiretape_proxy.addon_options import RotationLimit
from wiretape_proxy.recorder_messages import FileClosed, RecorderMessage, RotationFailed

_RETRY_AFTER_S = 10.0


class Rotation:
    """Rotates the files of one recording."""

    def __init__(
        self, first: Path, limit: RotationLimit, command: Sequence[str], send: Callable[[RecorderMessage], None]
    ) -> None:
        """`command` runs with the path of each closed file; empty for none."""
        self._first = first
        self.path = first
        """The file that is written now."""
        self._number = 1
        self._limit = limit
        self._command = command
        self._send = send
        self._since = time.monotonic()
        self._retry_at = 0.0
        self._running: list[tuple[Path, subprocess.Popen[bytes]]] = []

    def is_due(self, writer: Writer) -> bool:
        """Whether the file is large or old enough."""
        now = time.monotonic()
        if now < self._retry_at:
            return False
        if self._limit.seconds is not None:
            return now - self._since >= self._limit.seconds
        return self._limit.size is not None and writer.size >= self._limit.size

    def rotate(self, writer: Writer) -> None:
        """Continue in the next file; if that is not possible, in the same one, and try again later."""
        path = self._next_path()
        self._retry_at = time.monotonic() + _RETRY_AFTER_S
        try:
            if not writer.rotate(path):
                return
        except RecordingError as error:
            self._send(RotationFailed(f"{error.message} Recording continues in {self.path}."))
            return
        self._retry_at, self._since = 0.0, time.monotonic()
        closed, self.path = self.path, path
        self._send(FileClosed(str(closed), str(path)))
        self._run_command(closed)

    def finish(self) -> None:
        """The last file is closed: wait for all commands."""
        self._run_command(self.path)
        for path, process in self._running:
            process.wait()
            self._report(path, process)

    def _next_path(self) -> Path:
        while True:
            self._number += 1
            path = self._first.with_name(f"{self._first.stem}.{self._number:04}{self._first.suffix}")
            if not path_exists(path):
                return path

    def _run_command(self, closed: Path) -> None:
        for path, process in [each for each in self._running if each[1].poll() is not None]:
            self._running.remove((path, process))
            self._report(path, process)
        if not self._command:
            return
        try:
            # Standard output is the pipe to the proxy.
            process = subprocess.Popen(  # noqa: S603 - the user's command
                [*self._command, str(closed)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        except OSError as error:
            self._send(RotationFailed(f"Cannot run {self._command[0]} for {closed}: {error.strerror}."))
        else:
            self._running.append((closed, process))

    def _report(self, path: Path, process: "subprocess.Popen[bytes]") -> None:
        if process.returncode:
            self._send(RotationFailed(f"{self._command[0]} failed for {path} with status {process.returncode}."))
