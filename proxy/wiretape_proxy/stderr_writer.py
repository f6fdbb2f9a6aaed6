"""Write log lines to standard error, as text or JSON, and on a terminal a live view of the open streams below them.

A separate thread writes.  A terminal stopped with Ctrl-S, a pipe without a reader or a full disk must not hold up the
traffic: lines that cannot be written are dropped.
"""

import io
import logging
import os
import queue
import re
import select
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from wiretape.errors import describe_failure
from wiretape.json_codec import dump_json
from wiretape.safe_text import printable
from wiretape_proxy.recorder_messages import RecorderStatus

if TYPE_CHECKING:
    from wiretape_proxy.live_view import LiveView

_OUR_LOGGER = "wiretape_proxy"
_RECORDER_LOGGER = f"{_OUR_LOGGER}.recorder_client"
"""Its records contain redacted text only, and may mention bearer keys."""
_SECRET = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)
_MOST_LINES = 10_000
"""Lines that may wait to be written."""
_DRAW_EVERY_S = 0.25
_CLOSE_TIMEOUT_S = 2.0
_END: Final = None


class UnbufferedStderr(io.StringIO):
    """Standard error without a buffer that the interpreter would flush when it exits.

    After the first failed write, all text is dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._broken = False
        self._encoding = sys.stderr.encoding or "utf-8"

    def fileno(self) -> int:
        """Return the descriptor of standard error."""
        return 2

    def write(self, text: str) -> int:
        """Write all of the text, however long that takes."""
        data = text.encode(self._encoding, "backslashreplace")
        while data and not self._broken:
            try:
                data = data[os.write(2, data) :]
            except BlockingIOError:  # another process that shares the terminal made it non-blocking
                select.select([], [2], [])
            except OSError:
                self._broken = True
        return len(text)


class StderrWriter:
    """Accepts lines and statuses without blocking; `close` waits until they are written."""

    def __init__(self, *, live: bool, as_json: bool = False) -> None:
        """`live`: whether to show a live view of the open streams; `as_json`: whether each line is a JSON object."""
        self._as_json = as_json
        self._file = UnbufferedStderr()
        self._view = _create_view(self._file) if live else None
        self._dropped = 0
        self._ended = False
        self._closing = threading.Event()
        self._waiting: queue.Queue[str | RecorderStatus | None] = queue.Queue(_MOST_LINES)
        self._thread = threading.Thread(target=self._run, name="stderr", daemon=True)
        self._thread.start()

    def write_line(self, line: str, facts: Mapping[str, Any] | None = None, *, level: str = "info") -> None:
        """Write a line, with control characters escaped; only its JSON has `facts`, by name, and the level."""
        self._put(self._form(line, facts or {}, level))

    def show(self, status: RecorderStatus) -> None:
        """Update the live view."""
        self._put(status)

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Write the rest, and remove the view from the screen."""
        self._closing.set()
        self._put(_END)
        self._thread.join(timeout_s)

    def _form(self, line: str, facts: Mapping[str, Any], level: str) -> str:
        if not self._as_json:
            return printable(line)
        return dump_json({"time": datetime.now(UTC).isoformat(), "level": level, "message": printable(line), **facts})

    def _put(self, item: str | RecorderStatus | None) -> None:
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            self._dropped += isinstance(item, str)

    def _run(self) -> None:
        while not self._ended:
            items = [self._waiting.get()]
            if self._view is not None:
                self._closing.wait(_DRAW_EVERY_S)
            while not self._waiting.empty():
                items.append(self._waiting.get())
            self._ended = _END in items
            try:
                self._write(items)
            except Exception as error:  # noqa: BLE001 - later lines must still be written
                self._view = None
                self._write(
                    [f"The live view failed ({describe_failure(error)}): from now on, only lines are shown.", *items]
                )
        if self._view is not None:
            self._view.close()

    def _write(self, items: Sequence[str | RecorderStatus | None]) -> None:
        lines = [item for item in items if isinstance(item, str)]
        if self._dropped:
            lines.append(self._form(f"{self._dropped:,} lines were not shown.", {}, "warning"))
            self._dropped = 0
        if self._view is None:
            self._file.write("".join(f"{line}\n" for line in lines))
        else:
            status = next((item for item in reversed(items) if isinstance(item, RecorderStatus)), None)
            self._view.draw(lines, status)


def _create_view(file: UnbufferedStderr) -> "LiveView":
    from wiretape_proxy.live_view import LiveView  # noqa: PLC0415 - rich is needed on terminals only

    return LiveView(file)


_UNTRUSTED = "Certificate verify failed"
_UNTRUSTED_HINT = "trust the service's authority with --ca FILE, or skip verification with --insecure."


class LogHandler(logging.Handler):
    """Writes log records as plain lines.

    It is silent until `open`: errors before that end the command.  Only what the recorder reports is kept until then.
    """

    def __init__(self, stderr: StderrWriter) -> None:
        super().__init__()
        self._stderr = stderr
        self._is_open = False
        self._early: list[logging.LogRecord] = []

    def open(self) -> None:
        """Start to write."""
        self._is_open = True
        for record in self._early:
            self.emit(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, without a traceback, which could quote traffic."""
        if not self._is_open:
            if record.name == _RECORDER_LOGGER:
                self._early.append(record)
            return
        line = record.getMessage().partition("\n")[0]
        if record.exc_info and record.exc_info[0] is not None:
            line = f"{line} ({record.exc_info[0].__name__})"
        if _UNTRUSTED in line and not record.name.startswith(_OUR_LOGGER):
            line = f"{line.removesuffix('.')}; {_UNTRUSTED_HINT}"
        if record.name != _RECORDER_LOGGER:
            line = _SECRET.sub(r"\1 …", line)
        if not record.name.startswith(_OUR_LOGGER):
            line = f"mitmproxy: {line}"
        self._stderr.write_line(line, getattr(record, "facts", None), level=record.levelname.lower())


def install_log_handler(stderr: StderrWriter) -> LogHandler:
    """Send all our log records, and the warnings of other loggers, to standard error."""
    handler = LogHandler(stderr)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(_OUR_LOGGER).setLevel(logging.INFO)
    return handler
