"""Recordings: one SQLite file each.  `Writer` makes them, `open_recording` reads them, and other forms of them."""

from wiretape.recording.file import check_output
from wiretape.recording.growth import Progress
from wiretape.recording.lookup import IndexedEvent, Silence
from wiretape.recording.model import Capture, Exchange, RecordingInfo
from wiretape.recording.opening import open_recording, openings
from wiretape.recording.reader import Recording
from wiretape.recording.writer import Writer

__all__ = [
    "Capture",
    "Exchange",
    "IndexedEvent",
    "Progress",
    "Recording",
    "RecordingInfo",
    "Silence",
    "Writer",
    "check_output",
    "open_recording",
    "openings",
]
