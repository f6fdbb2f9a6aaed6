"""Rotation: when a recording continues in a new file, the names of the files, and what is done with closed ones."""

import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Lock

from wiretape import checker
from wiretape.errors import RecordingError, describe_failure
from wiretape.recording import DerivedTables, RecordingFile, Writer
from wiretape.recording.compressed_file import compress_recording, compressed_name
from wiretape.safe_text import printable
from wiretape_proxy.proxy_options import RotationLimit, Settings
from wiretape_proxy.recorder_messages import LogLine, RecorderMessage, UnfinishedFiles
from wiretape_proxy.recording_follower import RecordingFollower

_RETRY_AFTER_S = 10.0
_MOST_THREADS = 8
"""Closed files that are compressed, or for which the command runs, at the same time."""


class Rotation:
    """Rotates the files of one recording, compresses those that are closed, and runs a command for each."""

    def __init__(self, settings: Settings, send: Callable[[RecorderMessage], None], path: Path) -> None:
        """`path` is the file to begin with: that of the settings, unless a recorder that failed has rotated."""
        self.path = path
        """The file that is written now."""
        self._first = Path(settings.output)
        self._number = 1
        self._limit = settings.rotate or RotationLimit()
        self._compresses = settings.compress
        self._command = settings.rotate_command
        self._send = send
        self._since = time.monotonic()
        self._retry_at = 0.0
        self._lock = Lock()
        self._unfinished = [path]
        self._threads = ThreadPoolExecutor(_MOST_THREADS)

    @property
    def files(self) -> str:
        """The name of the only file, or those of the first and the last."""
        first = compressed_name(self._first) if self._compresses else self._first
        return str(self.path) if self.path in {first, self._first} else f"{first} … {self.path.name}"

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
        path, closed = self._next_path(), self.path
        self._retry_at = time.monotonic() + _RETRY_AFTER_S
        # If this process is killed, the next one finds out whether it was used.
        self._send_unfinished(opened=path)
        try:
            is_used = writer.rotate(path, lambda: self._threads.submit(self._handle_earlier, closed))
        except RecordingError as error:
            self._warn(f"{error.message} Recording continues in {self.path}.")
            is_used = False
        if not is_used:
            self._send_unfinished(handled=path)
            return
        self._retry_at, self._since = 0.0, time.monotonic()
        self.path = path
        self._send(LogLine(printable(f"Closed {closed}; recording continues in {path}.")))

    def finish_earlier(self, path: Path, settings: checker.Settings) -> None:
        """Check, close and handle a file that a recorder that failed had rotated."""
        self._threads.submit(self._close_and_handle, path, settings)

    def finish(self, *, is_missing: bool) -> None:
        """Handle the last file, which is closed, unless it `is_missing`, and wait until all files are handled."""
        if not is_missing:
            self.path = self._try_to_handle(self.path)
        self._threads.shutdown()

    def _send_unfinished(self, *, opened: Path | None = None, handled: Path | None = None) -> None:
        with self._lock:
            self._unfinished = [path for path in (*self._unfinished, opened) if path and path != handled]
            self._send(UnfinishedFiles([str(path) for path in self._unfinished]))

    def _warn(self, problem: str) -> None:
        self._send(LogLine(printable(problem), is_warning=True))

    def _next_path(self) -> Path:
        while True:
            self._number += 1
            path = self._first.with_name(f"{self._first.stem}.{self._number:04}{self._first.suffix}")
            if not os.path.lexists(path) and not os.path.lexists(compressed_name(path)):
                return path

    def _close_and_handle(self, path: Path, settings: checker.Settings) -> None:
        try:
            if path.exists():
                with closing(RecordingFile.reopen(path)) as file, closing(DerivedTables(file)) as tables:
                    RecordingFollower(tables, settings, self._send, first_exchange=file.last_exchange + 1).catch_up()
        except RecordingError as error:
            self._warn(error.message)
        except Exception as error:  # noqa: BLE001 - a thread must not end silently, and the recording is complete
            self._warn(f"{path} is not checked completely ({describe_failure(error)}).")
        self._handle_earlier(path)

    def _handle_earlier(self, path: Path) -> None:
        self._try_to_handle(path)
        self._send_unfinished(handled=path)

    def _try_to_handle(self, path: Path) -> Path:
        try:
            return self._handle_closed(path)
        except Exception as error:  # noqa: BLE001 - a thread must not end silently, and the recording is complete
            self._warn(f"{path} is closed, but not handled further ({describe_failure(error)}).")
            return path

    def _handle_closed(self, path: Path) -> Path:
        """Compress a closed file, and run the command with its path; return that."""
        if self._compresses:
            compressed = compressed_name(path)
            try:
                # A recorder that failed may have compressed it.
                path = compressed if compressed.exists() and not path.exists() else compress_recording(path)
            except RecordingError as error:
                self._warn(error.message)
        if self._command:
            try:
                # Standard output is the pipe to the proxy.
                status = subprocess.run(  # noqa: S603 - the user's command
                    [*self._command, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False
                ).returncode
            except OSError as error:
                self._warn(f"Cannot run {self._command[0]} for {path}: {error.strerror}.")
            else:
                if status:
                    self._warn(f"{self._command[0]} failed for {path} with status {status}.")
        return path
