"""The files of a rotated recording ("parts"), read as one recording, and what is wrong with a set of them."""

import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from wiretape.errors import InputError, RecordingError
from wiretape.observations import BytesLost, Observation, last_time_ns
from wiretape.recording.recording_builder import RecordingMetadata, RecordingSource, build_recording
from wiretape.recording.recording_reader import Recording, TailPosition, open_database
from wiretape.recording.recording_writer import IN_EARLIER_FILE
from wiretape.recording.schema import check_schema, connect
from wiretape.recording.table_rows import RecordingInfo

_NUMBERED_NAME = re.compile(r"(.+)\.\d{4,}((?:\.[^.]*)?)")


class _Part(NamedTuple):
    """What one file states about its place in a rotated recording; a whole recording is part 1."""

    file: str
    name: str
    """The same for messages."""
    series: tuple[int, bytes]
    """What all parts have in common: when the recording began, and its salt."""
    info: RecordingInfo
    last_exchange: int
    """The last exchange that began in this part or before."""
    end: TailPosition

    @classmethod
    def of(cls, file: str, name: str, recording: Recording) -> "_Part":
        """Describe an open recording."""
        last_exchange = max(recording.info.earlier_exchanges, recording.last_exchange)
        return cls(file, name, recording.series, recording.info, last_exchange, recording.tail_position())


@dataclass(frozen=True, slots=True)
class WholeFiles:
    """The files of one recording."""

    name: str
    """The first file, for messages, and how many follow."""
    files: tuple[str, ...]
    """In order."""
    partial: str
    """Which parts before and after are not included, in one sentence."""


def find_wholes(
    names: Sequence[str],
    open_file: Callable[[str], AbstractContextManager[Recording]],
    *,
    note: Callable[[str], object],
    fail: Callable[[str, InputError], object],
    shown_name: Callable[[str], str] = str,
) -> Iterator[WholeFiles]:
    """Group the named files to recordings.

    Calls `note` with sentences about missing and repeated files, and `fail` with the name and the error of each file
    that `open_file` cannot open, and of each recording whose files do not belong together.
    """
    parts: list[_Part] = []
    for file in names:
        try:
            with open_file(file) as recording:
                parts.append(_Part.of(file, shown_name(file), recording))
        except InputError as error:
            if (sentence := find_empty_part(Path(file), names)) is None:
                fail(shown_name(file), error)
            else:
                note(sentence)
    rotated = {part.series for part in parts if part.info.part > 1 or part.info.is_continued}
    groups: dict[object, list[_Part]] = {}
    for index, part in enumerate(parts):
        groups.setdefault(part.series if part.series in rotated else index, []).append(part)
    for group in groups.values():
        group.sort(key=lambda part: part.info.part)
        try:
            members, sentences = _order_parts(group)
        except InputError as error:
            fail(_whole_name(group), error)
            continue
        partial = _describe_missing_ends(members)
        for sentence in (*sentences, partial) if partial else sentences:
            note(sentence)
        yield WholeFiles(_whole_name(members), tuple(part.file for part in members), partial)


def _whole_name(parts: Sequence[_Part]) -> str:
    return parts[0].name + (f" (+{len(parts) - 1})" if len(parts) > 1 else "")


def _raise(_name: str, error: InputError) -> None:
    raise error


def open_wholes(
    names: Sequence[str],
    open_file: Callable[[str], Recording],
    opened: ExitStack,
    *,
    note: Callable[[str], object],
    fail: Callable[[str, InputError], object] = _raise,
    shown_name: Callable[[str], str] = str,
) -> Iterator[tuple[WholeFiles, Recording]]:
    """Open the recordings of the named files until `opened` is closed; see `find_wholes`.

    The files of a rotated recording become one recording, with its exchange numbers.
    """
    recordings: dict[str, Recording] = {}

    def read(name: str) -> AbstractContextManager[Recording]:
        if name not in recordings:
            recordings[name] = open_file(name)
        return nullcontext(recordings[name])

    for whole in find_wholes(names, read, note=note, fail=fail, shown_name=shown_name):
        yield whole, opened.enter_context(open_joined([recordings[file] for file in whole.files]))


def _order_parts(group: Sequence[_Part]) -> tuple[list[_Part], list[str]]:
    """Return the parts to read, and sentences about those that are left out or may lack their end.

    Raises InputError if they cannot be read as one recording.
    """
    members, repeated, unclosed = [group[0]], [], []
    for after in group[1:]:
        before = members[-1]
        if before.info.part != after.info.part:
            if (gap := _find_gap(before, after)) is not None:
                raise InputError(gap)
            if not before.info.is_continued and after.end.segment:
                unclosed.append(f"{before.name} was not closed, so its last bytes may be missing.")
            members.append(after)
        elif before[2:] != after[2:]:
            problem = f"{before.name} and {after.name} are both part {after.info.part} of one recording, but differ"
            raise InputError(f"{problem}: leave one of them out.")
        else:
            what = "is listed twice" if after.name == before.name else f"is the same part as {before.name}"
            repeated.append(f"{after.name} {what}, and is read once.")
    return members, [*repeated, *unclosed]


def _find_gap(before: _Part, after: _Part) -> str | None:
    """Describe what is missing between two parts, and what to do."""
    first, last, earlier = before.info.part + 1, after.info.part - 1, after.info.earlier_exchanges
    if first <= last:
        which = _number("part", first, last) + _number_exchanges(before.last_exchange + 1, earlier)
        verb, pronoun = ("is", "it") if first == last else ("are", "them")
        return (
            f"{which.capitalize()} of the recording {verb} missing between {before.name} and {after.name}: "
            f"add {pronoun}, or check the files before and after separately."
        )
    if before.last_exchange != earlier:
        return (
            f"{before.name} ends with exchange {before.last_exchange}, but {after.name} continues after exchange "
            f"{earlier}: replace {before.name} by a complete copy."
        )
    return None


def _describe_missing_ends(parts: Sequence[_Part]) -> str:
    first, last = parts[0], parts[-1]
    missing = []
    if first.info.part > 1:
        before = _number("part", 1, first.info.part - 1)
        missing.append(before + _number_exchanges(1, first.info.earlier_exchanges))
    if last.info.is_continued:
        missing.append("the parts after it" if first is last else "the parts after them")
    if not missing:
        return ""
    names = first.name if first is last else f"{first.name} to {last.name}"
    verb = "is" if first is last else "are"
    which = _number("part", first.info.part, last.info.part)
    return f"{names} {verb} {which} of a rotated recording; not included: {' and '.join(missing)}."


def _number(noun: str, first: int, last: int) -> str:
    return f"{noun} {first}" if first == last else f"{noun}s {first} to {last}"


def _number_exchanges(first: int, last: int) -> str:
    return f" ({_number('exchange', first, last)})" if first <= last else ""


def find_empty_part(path: Path, names: Iterable[str]) -> str | None:
    """If the recorder was killed when it created this file, and stored nothing in it, return a sentence about that.

    Only next to another part in `names`: alone, such a file is not a recording.
    """
    match = _NUMBERED_NAME.fullmatch(path.name)
    if match is None or not any(match[1] + match[2] == _unnumbered(name) for name in names if name != str(path)):
        return None
    try:
        is_empty = path.is_file() and (path.stat().st_size == 0 or _has_no_rows(path))
    except (OSError, sqlite3.Error, RecordingError):
        return None
    return f"{path} is left out: the recorder was killed before it stored anything in it." if is_empty else None


def _unnumbered(name: str) -> str:
    name = name.rpartition("/")[2].removesuffix(".zst")
    match = _NUMBERED_NAME.fullmatch(name)
    return name if match is None else match[1] + match[2]


def _has_no_rows(path: Path) -> bool:
    with closing(connect(path)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
            return True
        check_schema(connection, path)
        query = "SELECT 1 FROM capture UNION ALL SELECT 1 FROM exchange LIMIT 1"
        return connection.execute(query).fetchone() is None


@contextmanager
def open_joined(parts: Sequence[Recording]) -> Iterator[Recording]:
    """Open consecutive files of a rotated recording as one, which exists only within the block."""
    if len(parts) == 1:
        yield parts[0]
        return
    info = parts[0].info
    metadata = RecordingMetadata(
        upstream=info.upstream,
        started_unix_ns=info.started_unix_ns,
        captures=tuple(chain.from_iterable(part.captures() for part in parts)),
        redacted=sum(part.info.redacted for part in parts),
        contracts=info.contracts,
        probe=info.probe,
    )
    findings = [finding for part in parts for finding in part.findings()]
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        joined = Path(folder, "run.db")
        build_recording(RecordingSource(metadata, _observations(parts), findings), joined)
        with open_database(joined, name=parts[0].path, check_rows=False) as recording:
            yield recording


def _observations(parts: Sequence[Recording]) -> Iterator[Observation]:
    last_ns = -1
    for number, part in enumerate(parts):
        before_ns = last_ns
        for seen in part.observations():
            if number and isinstance(seen, BytesLost) and seen.why == IN_EARLIER_FILE:
                continue
            # A file begins with the heads of the exchanges that were open.
            if seen.time_ns > before_ns:
                yield seen
                last_ns = last_time_ns(seen)
