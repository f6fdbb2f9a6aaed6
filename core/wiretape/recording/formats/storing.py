"""From a file of another format to a recording: one that stays, or one that is gone when it has been read."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from wiretape import __version__
from wiretape.errors import InputError
from wiretape.observations import BytesArrived, BytesLost, Observation
from wiretape.recording.file import remove
from wiretape.recording.formats.model import Incoming
from wiretape.recording.formats.registry import Format
from wiretape.recording.model import Capture
from wiretape.recording.reader import Recording, open_database
from wiretape.recording.writer import Writer
from wiretape.rules.checker import Checker
from wiretape.safe_text import printable

_STEP_NS = 1_000_000
_LATEST_NS = 7_300_000_000 * 1_000_000_000
"""In the year 2201, on the clock on the wall: nanoseconds since 1970 fit into 64 bits until 2262."""
_LONGEST_BODY = 2**60
_BATCH = 2000
_BATCH_BYTES = 4 * 1024 * 1024
"""How many observations, and bytes of bodies, are stored at once."""


def store(incoming: Incoming, path: Path) -> None:
    """Make a recording at `path`, where there is none, of what comes in.

    Where that holds no findings, the rules are asked, as they are asked while a proxy records.
    Raises RecordingError where nothing can be written, and InputError where what comes in is wrong: nothing is left
    at `path` then.
    """
    head = incoming.head
    writer = Writer.create(path, upstream=head.upstream, started_unix_ns=head.started_unix_ns)
    try:
        _write(incoming, writer)
        ended_ns = writer.last_ns + _STEP_NS
        captures = head.captures or (Capture(f"wiretape {__version__}", 0, ended_ns),)
        writer.close(ended_ns, captures, redacted_before=head.redacted)
    except BaseException:
        with suppress(Exception):
            writer.close()
        remove(path)
        raise
    if writer.trouble is not None:
        remove(path)
        raise InputError(f"{printable(str(path))} cannot be written: {writer.trouble}.")


def opened(kind: Format, path: Path) -> Recording:
    """A recording of what a file holds that is there only for who reads it: no other process finds it.

    Raises InputError where the file is wrong.
    """
    with stored(kind, path) as made:
        # The file is open: that its name is gone does not matter to who reads it, and it goes with them.
        return open_database(made, called=path)


@contextmanager
def stored(kind: Format, path: Path) -> Iterator[Path]:
    """A recording of what a file holds, which is gone after the block.  Raises InputError where the file is wrong."""
    with tempfile.TemporaryDirectory(prefix="wiretape-", ignore_cleanup_errors=True) as folder:
        made = Path(folder, "run.db")
        try:
            store(kind.reader().read(path), made)
        except InputError as error:
            if str(made) not in error.message:
                raise
            said = error.message.replace(str(made), f"The temporary recording that {path} is read into")
            raise InputError(f"{said.removesuffix('.')}: set TMPDIR.") from None
        yield made


def _write(incoming: Incoming, writer: Writer) -> None:
    checker = None if incoming.findings is not None else Checker(readers=writer.readers)
    latest_ns = _LATEST_NS - incoming.head.started_unix_ns
    for batch in _batches(_fitting(incoming.observations, latest_ns)):
        writer.feed(batch)
        writer.commit()
        while writer.behind:
            for read in writer.derive():
                if checker is not None:
                    writer.add_findings(checker.take(read))
    writer.add_findings(checker.finish() if checker is not None else incoming.findings or ())


def _fitting(observations: Iterable[Observation], latest_ns: int) -> Iterator[Observation]:
    """The same.  Raises InputError for one with a number that a recording cannot hold."""
    for seen in observations:
        last_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
        if last_ns > latest_ns:
            raise InputError(f"Exchange {seen.exchange} lasts until after the year 2200: no recording holds that.")
        if _end(seen) > _LONGEST_BODY:
            raise InputError(f"A body of exchange {seen.exchange} is longer than a recording can hold.")
        yield seen


def _end(seen: Observation) -> int:
    """How far into a body it goes."""
    if isinstance(seen, BytesLost):
        return seen.start + seen.count
    return seen.end if isinstance(seen, BytesArrived) else 0


def _batches(observations: Iterable[Observation]) -> Iterator[list[Observation]]:
    """The same, some at a time."""
    left = iter(observations)
    while first := next(left, None):
        batch, size = [first], 0
        for seen in islice(left, _BATCH):
            batch.append(seen)
            size += len(seen.data) if isinstance(seen, BytesArrived) else 0
            if size >= _BATCH_BYTES:
                break
        yield batch
