"""File formats of recordings other than SQLite: their readers and writers, and how to detect them.

To add a format, add a row to `FORMATS`.
"""

from wiretape.recording.formats.registry import (
    FORMATS,
    Format,
    FormatReader,
    FormatWriter,
    detect_format,
    find_format,
)

__all__ = ["FORMATS", "Format", "FormatReader", "FormatWriter", "detect_format", "find_format"]
