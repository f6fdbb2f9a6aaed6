"""Build a recording from a source: a file in another format, or other recordings.

The readers of file formats return a `RecordingSource`; here are also helpers to make its observations.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from wiretape import __version__
from wiretape.checker import CATALOGUE, Checker, Settings
from wiretape.errors import InputError
from wiretape.observations import BytesArrived, BytesLost, Observation, Side, last_time_ns
from wiretape.recording.recording_file import delete_recording, mark_as_probe
from wiretape.recording.recording_writer import Writer
from wiretape.recording.schema import MAX_UNIX_NS
from wiretape.recording.table_rows import Capture
from wiretape.rules import Finding, Rule
from wiretape.safe_text import printable

MAX_HELD_BYTES = 512 * 1024 * 1024
"""Limit for what has to be held in memory at once, such as a whole HAR file."""
MAX_REDACTED = 2**53
"""Largest number of redacted secrets that a file may declare."""
MIN_STATUS, MAX_STATUS = 100, 999
"""Range of HTTP status codes.  Faulty services have been recorded with smaller ones."""

Chunk = tuple[int, bytes]
"""Arrival time of a chunk (ns, wall clock), and its bytes."""

_STEP_NS = 1_000_000
_MAX_BODY = 2**60
_BATCH_BYTES = 4 * 1024 * 1024
_OBSERVATION_BYTES = 2048
"""Assumed size of an observation, besides bytes of bodies."""
_MIN_STEP_NS = 4
"""Time between two observations; it leaves room for those that the writer inserts between them."""
_MAX_CHUNK = 16 * 1024 * 1024
"""Longer chunks are split: each is held in memory, and a row of SQLite can hold a gigabyte."""
_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class RecordingMetadata:
    """Description of a recording that is about to be built."""

    upstream: str
    """The URL of the service that the user named, or several; empty if there may be traffic of any host."""
    started_unix_ns: int
    """Wall clock at time 0."""
    captures: tuple[Capture, ...] = ()
    """The runs of the programs that recorded; none if they are unknown."""
    redacted: int = 0
    """Number of secrets that were already replaced by fingerprints."""
    contracts: str | None = None
    """The contracts that it is checked with; see `RecordingInfo`."""
    probe: str | None = None
    """The results of probe cases, if it is the recording of a probe."""


@dataclass(slots=True)
class RecordingSource:
    """Everything that a new recording is built from."""

    metadata: RecordingMetadata
    observations: Iterator[Observation]
    """In time order, with increasing times.  Raises InputError if the file that is read is invalid."""
    findings: list[Finding] | None = None
    """The live findings in the file, once `observations` is exhausted.  None if its format cannot contain findings:
    the rules then check the recording."""
    settings: Settings | None = None
    """Those to check with then; None for the contracts of the recording, whose code does not run."""
    notes: list[str] = field(default_factory=list)
    """A sentence for everything that the format could not hold or the reader had to invent, once `observations` is
    exhausted."""


def order_observations(
    exchanges: Iterable[Iterable[Observation]], started_unix_ns: int = 0, *, step_ns: int = _MIN_STEP_NS
) -> Iterator[Observation]:
    """Merge the observations of several exchanges into one sequence with increasing times, `step_ns` apart at least.

    The given times may be equal, and those of earlier exchanges come first then; the resulting times count from
    `started_unix_ns`, if they are wall clock times.
    """
    last_ns = 0
    for seen in heapq.merge(*exchanges, key=lambda seen: seen.time_ns):
        last_ns = max(seen.time_ns - started_unix_ns, last_ns + step_ns)
        yield move_observation(seen, last_ns)


def move_observation(seen: Observation, time_ns: int) -> Observation:
    """Return an observation, of one chunk if it has bytes, at another time."""
    return replace(seen, times=(time_ns,)) if isinstance(seen, BytesArrived) else replace(seen, time_ns=time_ns)


def observe_body(exchange: int, side: Side, chunks: Iterable[Chunk], start: int = 0) -> Iterator[BytesArrived]:
    """Return a body, or its part from `start` on, that arrived in these chunks as observations without empty chunks."""
    for time_ns, data in chunks:
        for at in range(0, len(data), _MAX_CHUNK):
            part = data[at : at + _MAX_CHUNK]
            end = start + len(part)
            yield BytesArrived(exchange, side, start, part, (end,), (time_ns,))
            start = end


def list_exchanges(numbers: Sequence[int]) -> str:
    """Return `exchange 1`, or `7 exchanges (1, 2, 3, 4, 5, …)`."""
    if len(numbers) == 1:
        return f"exchange {numbers[0]}"
    listed = ", ".join(map(str, numbers[:_MAX_LISTED]))
    return f"{len(numbers):,} exchanges ({listed}{', …' if len(numbers) > _MAX_LISTED else ''})"


def build_recording(source: RecordingSource, path: Path) -> None:
    """Build a new recording at `path`.

    If the source has no findings, the rules check the observations, as they do while a proxy records.  Raises
    RecordingError if `path` cannot be written, and InputError if the source is invalid; no file is left then.
    """
    metadata = source.metadata
    if not 0 <= metadata.started_unix_ns <= MAX_UNIX_NS:
        raise InputError("The start time is before 1970 or after 2200: a recording cannot store such a time.")
    writer = Writer.create(
        path, upstream=metadata.upstream, started_unix_ns=metadata.started_unix_ns, contracts=metadata.contracts
    )
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
    if metadata.probe is not None:
        mark_as_probe(path, metadata.probe)


@lru_cache(maxsize=4)
def settings_of(contracts: str | None) -> Settings:
    """Return the settings that check with the contracts of a recording (see `RecordingInfo`).  Their code does not run.

    Contracts that cannot be used are left out: the recording can have a contract of another version, or a stranger's.
    """
    if contracts is None:
        return Settings()
    # Contracts take long to import, and most recordings have none.
    from wiretape.contract.contract_builder import load_recorded  # noqa: PLC0415

    with suppress(InputError):
        return Settings().with_contracts(load_recorded(contracts, "The recording"))
    return Settings()


def known_rules(contracts: str | None) -> Mapping[str, Rule]:
    """Return the rules that findings of a recording may name, by code: built-in ones, and those of its contracts."""
    return {**CATALOGUE, **settings_of(contracts).catalogue}


def join_contracts(recordings: Iterable[str | None]) -> str | None:
    """Return the contracts of several recordings, each once; see `RecordingInfo`."""
    found: list[Any] = []
    for contracts in recordings:
        with suppress(ValueError, TypeError):  # a recording can come from a stranger
            found += [each for each in orjson.loads(contracts or "[]") if each not in found]
    return orjson.dumps(found).decode() if found else None


def _write(source: RecordingSource, writer: Writer) -> None:
    max_ns = MAX_UNIX_NS - source.metadata.started_unix_ns
    size = 0
    for seen in source.observations:
        if last_time_ns(seen) > max_ns:
            raise InputError(
                f"Exchange {seen.exchange} ends after the year 2200: a recording cannot store such a time."
            )
        if isinstance(seen, BytesArrived | BytesLost) and seen.end > _MAX_BODY:
            raise InputError(f"A body of exchange {seen.exchange} is longer than a recording can hold.")
        writer.feed([seen])
        size += _OBSERVATION_BYTES + (len(seen.data) if isinstance(seen, BytesArrived) else 0)
        if size >= _BATCH_BYTES:
            writer.commit()
            size = 0
    writer.store_rest()
    checker = None
    if source.findings is None:
        settings = source.settings or settings_of(source.metadata.contracts)
        checker = Checker(settings, readers=writer.tables.readers, upstream=writer.upstream)
    while writer.derive(checker.feed_read if checker is not None else None):
        pass
    writer.add_findings(checker.finish() if checker is not None else source.findings or ())
