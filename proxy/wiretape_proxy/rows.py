"""Rows for the events of a stream, as mitmproxy's own interfaces show them: few, and cheap to make."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from wiretape.json_reader import read_json, sequence_in
from wiretape.labels import count_of
from wiretape.safe_text import shorten
from wiretape.sse import Frame, FrameKind

HEAD = f"{'event':>7}  {'seq':>6}  {'gap':>10}  type"
INDENT = " " * 17
"""Before what stands below an event."""
_LONGEST = 300
"""Characters of what an event holds."""
_LONGEST_NAME = 60
_LONGEST_JSON = 1 << 20
"""Bytes of JSON that are read for the type and the sequence."""
_WORDS = {FrameKind.TAIL: "cut", FrameKind.OVERSIZED: "large"}


@dataclass(frozen=True, slots=True)
class Row:
    """What is said of one frame; its texts are safe to show."""

    kind: FrameKind
    event: int | None
    """Its number on the connection; None where that is not known, or it is no message."""
    sequence: str
    gap: str
    """Since the message before."""
    text: str

    @property
    def line(self) -> str:
        """The row, as people read it."""
        number = _WORDS.get(self.kind, "?") if self.event is None else str(self.event)
        return f"{number:>7}  {self.sequence:>6}  {self.gap:>10}  {self.text}".rstrip()


def row_of(frame: Frame, event: int | None, gap_ns: int | None) -> Row:
    """The row of a frame that came `gap_ns` after the message before it (None: not known)."""
    gap = "" if gap_ns is None else f"+{gap_ns / 1e9:,.3f}s"
    if frame.kind is not FrameKind.MESSAGE:
        return Row(frame.kind, None, "", gap, _text(frame.raw))
    data = frame.data
    document = read_json(data) if len(data) <= _LONGEST_JSON else None
    said = document if isinstance(document, dict) else {}
    sequence = sequence_in(said, data) if said else None
    name = said.get("type")
    cells = (
        f"{shorten(name if name and isinstance(name, str) else frame.event, _LONGEST_NAME):<22}",
        shorten(frame.id or "", _LONGEST_NAME),
        _text(data) if frame.dispatched else "no data line, so clients ignore it",
    )
    mark = shorten(str(sequence), _LONGEST_NAME) if type(sequence) is int else "·"
    return Row(frame.kind, event, mark, gap, "  ".join(filter(None, cells)))


def lines_of(rows: Iterable[Row]) -> Iterator[tuple[int | None, str]]:
    """A line for each row, after the number of its event; one for comments that follow each other."""
    for is_comment, group in groupby(rows, lambda row: row.kind is FrameKind.COMMENT):
        if is_comment:
            *before, last = group
            yield None, f"{INDENT}╌╌ {count_of(len(before) + 1, 'comment')} ╌╌  {last.text}"
        else:
            yield from ((row.event, row.line) for row in group)


def _text(data: bytes) -> str:
    """How bytes begin; four make at most a character."""
    return shorten(data[: 4 * _LONGEST + 4].decode("utf-8", "replace").rstrip("\r\n"), _LONGEST)
