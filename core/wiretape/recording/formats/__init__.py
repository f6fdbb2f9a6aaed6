"""File formats of recordings other than SQLite: their readers and writers, and how to detect them.

To add a format, add a row to `FORMATS`.
"""

from wiretape.recording.formats.registry import FORMATS as FORMATS
from wiretape.recording.formats.registry import Format as Format
from wiretape.recording.formats.registry import FormatReader as FormatReader
from wiretape.recording.formats.registry import detect_format as detect_format
from wiretape.recording.formats.registry import find_format as find_format
