"""Recordings: SQLite files with observations.  `open_recording` reads them, `Writer` and `build_recording` write them.

`wiretape.recording.formats` reads and writes other file formats.
"""

from wiretape.recording.builder import build_recording
from wiretape.recording.frame_lookup import Gap, IndexedEvent
from wiretape.recording.indexing_backlog import LARGE_SLICE, SMALL_SLICE, TINY_SLICE, BacklogSlice
from wiretape.recording.interleave import TailPosition
from wiretape.recording.opener import open_recording, recording_opener
from wiretape.recording.recording_file import (
    check_not_recording,
    check_output,
    delete_journal,
    delete_recording,
    lock_for_writing,
)
from wiretape.recording.recording_reader import Recording
from wiretape.recording.recording_source import (
    MAX_STATUS,
    RecordingMetadata,
    RecordingSource,
    list_exchanges,
    observe_body,
    order_observations,
)
from wiretape.recording.recording_types import Capture, Exchange, RecordingInfo
from wiretape.recording.recording_writer import Writer
from wiretape.recording.redactor import REDACTED_PATTERN, RedactionPolicy, Redactor
from wiretape.recording.schema import is_sqlite_file

__all__ = [
    "LARGE_SLICE",
    "MAX_STATUS",
    "REDACTED_PATTERN",
    "SMALL_SLICE",
    "TINY_SLICE",
    "BacklogSlice",
    "Capture",
    "Exchange",
    "Gap",
    "IndexedEvent",
    "Recording",
    "RecordingInfo",
    "RecordingMetadata",
    "RecordingSource",
    "RedactionPolicy",
    "Redactor",
    "TailPosition",
    "Writer",
    "build_recording",
    "check_not_recording",
    "check_output",
    "delete_journal",
    "delete_recording",
    "is_sqlite_file",
    "list_exchanges",
    "lock_for_writing",
    "observe_body",
    "open_recording",
    "order_observations",
    "recording_opener",
]
