"""A HAR file, read."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.json_reader import UnreadableJson, read_json
from wiretape.observations import Observation
from wiretape.recording.formats.har.entries import Entry, entry
from wiretape.recording.formats.har.notes import Notes
from wiretape.recording.formats.har.values import File, member, members, needed, text
from wiretape.recording.recording_source import MAX_HELD_BYTES, RecordingMetadata, RecordingSource, order_observations
from wiretape.toml import Table, said

_CHROMIUM = frozenset({"WebInspector", "Playwright"})
"""What the creator of a HAR is called whose bodies Chromium has made text of."""
_BOM = b"\xef\xbb\xbf"


def read(path: Path) -> RecordingSource:
    """Begin to read a HAR.  Raises InputError."""
    document = _document(path)
    if not isinstance(document, dict):
        raise InputError(f"{said(path)} is no HAR: it has to be a JSON object with a log.")
    notes = Notes()
    entries = sorted(_entries(Table(File(path), document), notes), key=lambda each: each.began_ns)
    if not entries:
        raise InputError(f"{said(path)} holds no HTTP request.")
    first = entries[0]
    head = RecordingMetadata(f"{first.scheme}://{first.authority}", first.began_ns)
    incoming = RecordingSource(head, iter(()))
    incoming.observations = _observations(entries, notes, incoming)
    return incoming


def _document(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_HELD_BYTES:
            raise InputError(f"{said(path)} is larger than {MAX_HELD_BYTES >> 20} MiB: that is too much for a HAR.")
        value = read_json(path.read_bytes().removeprefix(_BOM))
    except OSError as error:
        raise InputError(read_error(path, error)) from None
    if value is UnreadableJson.NOT_JSON:
        raise InputError(f"{said(path)} is no HAR: it is no JSON, or not all of it is there.")
    if isinstance(value, UnreadableJson):
        raise InputError(f"{said(path)} is no HAR: it is nested too deep, or has numbers too long, to be read.")
    return value


def _entries(document: Table, notes: Notes) -> Iterator[Entry]:
    log = needed(document, "log")
    creator = member(log, "creator")
    by_chromium = creator is not None and text(creator, "name") in _CHROMIUM
    for table in members(log, "entries"):
        found = entry(table, by_chromium=by_chromium)
        if found is None:
            notes.skipped += 1
        else:
            yield found


def _observations(entries: Sequence[Entry], notes: Notes, incoming: RecordingSource) -> Iterator[Observation]:
    each = (found.observations(number, notes) for number, found in enumerate(entries, 1))
    yield from order_observations(each, incoming.metadata.started_unix_ns)
    incoming.notes += notes.sentences()
