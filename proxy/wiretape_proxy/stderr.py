"""What the proxy says on standard error: lines, and on a terminal a view of the open streams below them.

A thread of its own writes it.  A terminal that was stopped with Ctrl-S, a pipe that nobody reads or a full disk
must not hold up the traffic: lines that cannot be written are left out.
"""

import io
import logging
import os
import queue
import re
import select
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from wiretape.safe_text import printable
from wiretape_proxy.reports import Progress

if TYPE_CHECKING:
    from wiretape_proxy.view import View

_OURS = "wiretape_proxy"
_SECRET = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)
REDACTED: Final = {"redacted": True}
"""The `extra` of log records that hold nothing but what was redacted already, and may speak of bearer keys."""
_MOST_LINES = 10_000
"""How many lines may wait to be written."""
_DRAW_EVERY_S = 0.25
_PATIENCE_S = 2.0
_END: Final = None


class Descriptor(io.StringIO):
    """Standard error without a buffer, which would want to be flushed when the interpreter ends.

    Once it cannot be written to, what comes is left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._broken = False
        self._encoding = sys.stderr.encoding or "utf-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the locale."""
        return self._encoding

    def fileno(self) -> int:
        """That of standard error."""
        return 2

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Write all of it, however long that takes."""
        data = text.encode(self._encoding, "backslashreplace")
        while data and not self._broken:
            try:
                data = data[os.write(2, data) :]
            except BlockingIOError:  # somebody who shares the terminal with us made it so
                select.select([], [2], [])
            except OSError:
                self._broken = True
        return len(text)


class Stderr:
    """Takes lines and views and returns at once; `close` waits until they are written."""

    def __init__(self, *, live: bool) -> None:
        """`live` says whether to keep a view of the open streams on the screen."""
        self._file = Descriptor()
        self._view = _view(self._file) if live else None
        self._left_out = 0
        self._ended = False
        self._closing = threading.Event()
        self._waiting: queue.Queue[str | Progress | None] = queue.Queue(_MOST_LINES)
        self._thread = threading.Thread(target=self._write, name="stderr", daemon=True)
        self._thread.start()

    def say(self, line: str) -> None:
        """Write a line, made safe to show."""
        self._put(printable(line))

    def show(self, progress: Progress) -> None:
        """Renew the view."""
        self._put(progress)

    def close(self, patience_s: float = _PATIENCE_S) -> None:
        """Write what is left, and take the view off the screen."""
        self._closing.set()
        self._put(_END)
        self._thread.join(patience_s)

    def _put(self, what: str | Progress | None) -> None:
        try:
            self._waiting.put_nowait(what)
        except queue.Full:
            self._left_out += isinstance(what, str)

    def _write(self) -> None:
        while not self._ended:
            waiting = [self._waiting.get()]
            if self._view is not None:
                self._closing.wait(_DRAW_EVERY_S)
            while not self._waiting.empty():
                waiting.append(self._waiting.get())
            self._ended = _END in waiting
            self._put_out(waiting)
        if self._view is not None:
            self._view.close()

    def _put_out(self, waiting: Sequence[str | Progress | None]) -> None:
        lines = [what for what in waiting if isinstance(what, str)]
        if self._left_out:
            lines.append(f"{self._left_out:,} lines like these were left out.")
            self._left_out = 0
        if self._view is None:
            self._file.write("".join(f"{line}\n" for line in lines))
        else:
            progress = next((what for what in reversed(waiting) if isinstance(what, Progress)), None)
            self._view.draw(lines, progress)


def _view(file: Descriptor) -> "View":
    from wiretape_proxy.view import View  # noqa: PLC0415 - rich is needed on terminals only

    return View(file)


class Output(logging.Handler):
    """Log records as plain lines.  Before the proxy is ready, errors are told by the exception that ends it."""

    def __init__(self, stderr: Stderr) -> None:
        super().__init__(logging.CRITICAL)
        self._stderr = stderr

    def open(self) -> None:
        """The proxy is ready: from now on, say what there is to say."""
        self.setLevel(logging.NOTSET)

    def emit(self, record: logging.LogRecord) -> None:
        """Say it in one line, without a traceback: those quote what passes."""
        line = record.getMessage().partition("\n")[0]
        if record.exc_info and record.exc_info[0] is not None:
            line = f"{line} ({record.exc_info[0].__name__})"
        if not hasattr(record, "redacted"):
            line = _SECRET.sub(r"\1 …", line)
        self._stderr.say(line if record.name.startswith(_OURS) else f"mitmproxy: {line}")


def install(stderr: Stderr) -> Output:
    """Send the log there: all that we say, and the warnings of others."""
    output = Output(stderr)
    logging.basicConfig(level=logging.WARNING, handlers=[output], force=True)
    logging.getLogger(_OURS).setLevel(logging.INFO)
    return output


def is_for_people(descriptor: int = 2) -> bool:
    """Whether standard error, or another descriptor, is a terminal for a view, and nobody wants plain text."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    try:
        return os.isatty(descriptor) and not plain
    except OSError:
        return False
