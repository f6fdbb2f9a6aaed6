"""Build a recording from observations: those of a file in another format, or of other recordings."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from wiretape import __version__
from wiretape.errors import InputError
from wiretape.observations import BytesArrived, BytesLost, Observation
from wiretape.recording.recording_file import delete_recording
from wiretape.recording.recording_source import RecordingSource
from wiretape.recording.recording_types import Capture
from wiretape.recording.recording_writer import Writer
from wiretape.rules import Checker
from wiretape.safe_text import printable

_STEP_NS = 1_000_000
_MAX_UNIX_NS = 7_300_000_000 * 1_000_000_000
"""The year 2201: nanoseconds since 1970 fit into 64 bits until 2262."""
_MAX_BODY = 2**60
_BATCH = 2000
_BATCH_BYTES = 4 * 1024 * 1024


def build_recording(source: RecordingSource, path: Path) -> None:
    """Build a new recording at `path`.

    If the source has no findings, the rules check the observations, as they do while a proxy records.  Raises
    RecordingError if `path` cannot be written, and InputError if the source is invalid; no file is left then.
    """
    metadata = source.metadata
    writer = Writer.create(path, upstream=metadata.upstream, started_unix_ns=metadata.started_unix_ns)
    try:
        _write(source, writer)
        ended_ns = writer.last_ns + _STEP_NS
        captures = metadata.captures or (Capture(f"wiretape {__version__}", 0, ended_ns),)
        writer.close(ended_ns, captures, redacted_before=metadata.redacted)
    except BaseException:
        with suppress(Exception):
            writer.close()
        delete_recording(path)
        raise
    if writer.last_error is not None:
        delete_recording(path)
        raise InputError(f"{printable(str(path))} cannot be written: {writer.last_error}.")


def _write(source: RecordingSource, writer: Writer) -> None:
    checker = None if source.findings is not None else Checker(readers=writer.stream_readers)
    max_ns = _MAX_UNIX_NS - source.metadata.started_unix_ns
    for batch in _batches(_check_limits(source.observations, max_ns)):
        writer.feed(batch)
        writer.commit()
        while writer.has_backlog:
            for read in writer.derive():
                if checker is not None:
                    writer.add_findings(checker.feed_read(read))
    writer.add_findings(checker.finish() if checker is not None else source.findings or ())


def _check_limits(observations: Iterable[Observation], max_ns: int) -> Iterator[Observation]:
    """Raise InputError for an observation with a number that a recording cannot hold."""
    for seen in observations:
        last_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
        if last_ns > max_ns:
            raise InputError(f"Exchange {seen.exchange} lasts until after the year 2200: a recording cannot hold that.")
        if _body_end(seen) > _MAX_BODY:
            raise InputError(f"A body of exchange {seen.exchange} is longer than a recording can hold.")
        yield seen


def _body_end(seen: Observation) -> int:
    if isinstance(seen, BytesLost):
        return seen.start + seen.count
    return seen.end if isinstance(seen, BytesArrived) else 0


def _batches(observations: Iterable[Observation]) -> Iterator[list[Observation]]:
    rest = iter(observations)
    while first := next(rest, None):
        batch, size = [first], 0
        for seen in islice(rest, _BATCH):
            batch.append(seen)
            size += len(seen.data) if isinstance(seen, BytesArrived) else 0
            if size >= _BATCH_BYTES:
                break
        yield batch
