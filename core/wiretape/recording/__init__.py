"""Recordings: one SQLite file each.  `Writer` makes them, `open_recording` reads them."""

from wiretape.recording.file import check_output
from wiretape.recording.growth import Progress
from wiretape.recording.lookup import IndexedEvent, Silence
from wiretape.recording.model import Exchange, RecordingInfo
from wiretape.recording.reader import Recording, open_recording
from wiretape.recording.writer import Writer

__all__ = [
    "Exchange",
    "IndexedEvent",
    "Progress",
    "Recording",
    "RecordingInfo",
    "Silence",
    "Writer",
    "check_output",
    "open_recording",
]
