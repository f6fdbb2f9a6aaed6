"""A cassette: a tape, and the service that it is recorded from.

Requests that the tape lacks are forwarded to the service, if the mode allows it.  What is recorded is in a file beside
the tape, which replaces the tape once `save` is called: until then, the tape stays as it was, even if the process is
killed.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from itertools import count
from pathlib import Path

from wiretape.addresses import require_upstream
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.errors import InputError, RecordingError
from wiretape.files import check_writable, file_errors, path_exists, replace_atomically, write_error
from wiretape.labels import count_of
from wiretape.recording import (
    Recording,
    Writer,
    copy_recording,
    delete_recording,
    is_sqlite_file,
    lock_for_writing,
    open_recording,
    unlock,
)
from wiretape.recording.compressed_file import is_compressed
from wiretape.recording.formats import find_format
from wiretape.safe_text import printable
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.http_server.response_writer import ExchangeListener, ResponseWriter
from wiretape_replay.http_server.upstream_client import UpstreamClient
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.verbatim.verbatim_player import Forward

_EMPTY = "tape: 1\n"
_in_use: set[Path] = set()
"""The files that replays of this process record to."""


class RecordMode(StrEnum):
    """What a cassette records."""

    NONE = "none"
    """Nothing: the tape must have every response."""
    ONCE = "once"
    """The whole tape if it does not exist, and nothing if it does."""
    MISSING = "missing"
    """The responses that the tape lacks."""
    ALL = "all"
    """The whole tape again."""


def default_mode() -> RecordMode:
    """The mode if none is chosen: in CI, where the variable CI is set, nothing is recorded."""
    return RecordMode.NONE if os.environ.get("CI", "").lower() not in {"", "0", "false"} else RecordMode.ONCE


class Cassette:
    """A tape, or another recording, that is replayed and recorded."""

    def __init__(
        self,
        file: Path,
        upstream: str,
        mode: RecordMode = RecordMode.MISSING,
        *,
        command: Callable[[RecordMode], str] = lambda mode: f'record="{mode}"',
        since_ns: int | None = None,
    ) -> None:
        """`command` returns what records in a mode, for messages.

        A tape that was written after `since_ns` (wall clock) belongs to the same tests: it is continued.
        Raises InputError if the tape does not exist and nothing is recorded, or if it cannot be written.
        """
        self.file = file
        self.upstream = require_upstream(upstream)
        self.command = command
        self.mode = mode
        self._since_ns = since_ns
        self._signature = _signature(file)
        exists = self._signature is not None
        is_continued = since_ns is not None and self._signature is not None and self._signature[0] >= since_ns
        if mode is RecordMode.NONE and not exists:
            raise InputError(f"There is no tape {printable(str(file))}: record it with `{command(RecordMode.ONCE)}`.")
        self._starts_empty = not exists or (mode is RecordMode.ALL and not is_continued)
        self.forwards = mode is not RecordMode.NONE and (
            mode is RecordMode.MISSING or self._starts_empty or is_continued
        )
        """Whether requests that the tape lacks are forwarded."""
        self.partial = file.with_name(f"{file.name}.recording")
        """The file with what is recorded, until it is saved."""
        self._writer: Writer | None = None
        self._recorder: ClientChecker | None = None
        self.recorded = 0
        """The number of requests that were forwarded."""
        self.is_saved = False
        """Whether the tape was written."""
        if self._starts_empty:
            with file_errors(file, write_error):
                file.parent.mkdir(parents=True, exist_ok=True)
            check_writable(file)
        elif self.forwards and is_compressed(file):
            raise InputError(f"{file} is compressed, so nothing can be added to it: use `wiretape import` first.")

    @property
    def missing_hint(self) -> str:
        """How to record what the tape lacks; empty if that was tried."""
        return "" if self.forwards else f"Record what is missing with `{self.command(RecordMode.MISSING)}`."

    def open(self) -> Recording:
        """Open what is replayed.  Raises InputError."""
        if not self._starts_empty:
            try:
                return open_recording(self.file)
            except InputError as error:
                hint = "" if self.mode is RecordMode.NONE else " Correct it, or delete it to record it again."
                raise InputError(f"{error.message}{hint}") from None
        with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
            empty = Path(folder, self.file.name)
            empty.write_text(_EMPTY, "utf-8")
            return open_recording(empty)

    @asynccontextmanager
    async def serving(self, contracts: ReplayedContracts) -> AsyncIterator[Forward]:
        """Yield a function that forwards requests; it records them until the block is left."""
        client, beginning = UpstreamClient(self.upstream, self._record), asyncio.Lock()

        async def forward(request: HttpRequest, writer: ResponseWriter) -> str | None:
            async with beginning:
                if self._recorder is None:
                    try:
                        self._recorder = await asyncio.to_thread(self._begin, contracts)
                    except InputError as error:
                        return f"it cannot be recorded: {error.message}"
            writer.log_outcome(request, f"forwarded to {self.upstream.origin}")
            return await client.forward(request, writer)

        try:
            yield forward
        finally:
            await client.close()
            if self._recorder is not None:
                self._recorder.finish()
                _in_use.discard(self.partial)
                if not self.recorded:  # the service refused
                    with suppress(OSError):
                        delete_recording(self.partial)

    def save(self) -> None:
        """Write what was recorded to the tape, after serving; nothing if nothing was.  Raises InputError."""
        if not self.recorded or self._writer is None:
            return
        try:
            self._replace(self._writer.last_error)
            self.is_saved = True
        except InputError as error:
            raise InputError(f"{error.message} {self.unsaved()}") from None

    def _replace(self, storing_error: str | None) -> None:
        if storing_error is not None:
            raise InputError(f"{self.partial} cannot be written: {storing_error}.")
        lock = lock_for_writing(self.partial)
        try:
            with file_errors(self.file, write_error):
                if path_exists(self.file) and is_sqlite_file(self.file):
                    self.partial.replace(self.file.resolve())
                    return
                with open_recording(self.partial) as recording, replace_atomically(self.file, 0o600) as tape:
                    tape.writelines(find_format("tape").write(recording))
                delete_recording(self.partial)
        finally:
            unlock(lock)

    def unsaved(self) -> str:
        """A sentence that names what was recorded but not saved; empty if there is nothing."""
        if not self.recorded or self.is_saved:
            return ""
        recorded = f"{count_of(self.recorded, 'recorded exchange')} {'is' if self.recorded == 1 else 'are'}"
        return f"{printable(str(self.file))} was not written; {recorded} in {printable(str(self.partial))}."

    def _record(self, request: HttpRequest) -> ExchangeListener:
        if self._recorder is None:
            raise RuntimeError("nothing is recorded")
        self.recorded += 1
        return self._recorder.start_exchange(request)

    def _choose_partial(self) -> None:
        """Delete what earlier runs left, and choose a name that no test of this run has.  Raises InputError."""
        numbers = count(2)
        while path_exists(self.partial):  # a test failed, or its process was killed
            if self.partial in _in_use:
                raise InputError(f"Another replay is recording to {self.partial}: start one replay for each tape.")
            try:
                lock = lock_for_writing(self.partial)
            except RecordingError as error:
                hint = "With pytest-xdist, mark the tests of a tape with xdist_group, or give each its own tape."
                raise InputError(error.message if self._since_ns is None else f"{error.message} {hint}") from None
            if self._since_ns is not None and self.partial.stat().st_mtime_ns >= self._since_ns:
                self.partial = self.file.with_name(f"{self.file.name}.recording-{next(numbers)}")
            else:
                delete_recording(self.partial)
            unlock(lock)

    def _begin(self, contracts: ReplayedContracts) -> ClientChecker:
        """Begin to record, after what the tape has.  Raises InputError."""
        self._choose_partial()
        last, started_unix_ns = 0, None
        # Another process can have written the tape since it was opened.
        is_continued = not self._starts_empty or _signature(self.file) != self._signature
        if is_continued:
            copy_recording(self.file, self.partial)
            with open_recording(self.partial) as copied:
                last = max((exchange.number for exchange in copied.exchanges()), default=0)
                # In a tape that does not say when it was recorded, the next exchanges follow at once.
                started_unix_ns = 0 if copied.info.started_unix_ns == 0 else None
        self._writer = Writer.create(
            self.partial,
            upstream=self.upstream.url,
            append=is_continued,
            started_unix_ns=started_unix_ns,
            contracts=dump_contracts(contracts.checked),
        )
        if self._writer.first_exchange != last + 1:
            raise InputError(f"{self.partial} was replaced by another process.")
        _in_use.add(self.partial)
        recorder = ClientChecker()
        recorder.record_into(self._writer, self.upstream)
        return recorder


def _signature(file: Path) -> tuple[int, ...] | None:
    """What changes if a file is written; None if there is none.  Raises InputError."""
    try:
        with file_errors(file):
            found = file.stat()
    except InputError:
        if path_exists(file):
            raise
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
