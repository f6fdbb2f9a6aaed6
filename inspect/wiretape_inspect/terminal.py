"""Style lines for a terminal and fit them to its width."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.containers import Lines
from rich.text import Text

from wiretape.safe_text import printable
from wiretape.terminal_styles import styled
from wiretape_inspect.terminal_output import Line

MIN_WIDTH = 40
"""Columns that a terminal is assumed to have at least."""
MAX_PROSE_WIDTH = 100
"""Columns that prose takes at most."""
_FULL_IDS_WIDTH = 160
"""Columns from which on there is room for ids of any length."""
_MIN_WIDTHS = {"time column": 80, "gap column": 70, "long gap column": 70}
"""Columns that a terminal needs to show a column of the timeline."""
_ID_STYLES = {"id", "call"}
_ID_BEGIN, _ID_END = 7, 6
"""Characters at the beginning and the end of an abbreviated id."""
_SEAMS = {"  ": 0, " ": 0, ',"': 1, "?": 0, "&": 0, "/": 0}
"""Texts that a long line is broken at, the best first, and how many of their characters stay before the break."""


class Terminal:
    """A terminal of a width, with or without colours; or a pipe that gets colours, which has no width."""

    def __init__(self, width: int | None, *, has_colour: bool) -> None:
        self.width = width and max(width, MIN_WIDTH)
        self.has_colour = has_colour

    def render(self, line: Line) -> str:
        """Return a line, styled and fitted to the width; control characters in it are escaped."""
        parts = (
            printable(part) if isinstance(part, str) else (printable(part[0]), part[1])
            for part in line.parts
            if isinstance(part, str) or self.width is None or self.width >= _MIN_WIDTHS.get(part[1], 0)
        )
        text = Text.assemble(*parts)
        text.rstrip()
        if self.width is None:
            return self._styled(text)
        if line.fit in {"wrap", "prose"}:
            width = self.width if line.fit == "wrap" else min(self.width, MAX_PROSE_WIDTH)
            return "\n".join(map(self._styled, _wrapped(text, width, min(line.indent, width - MIN_WIDTH // 2))))
        if line.fit == "cut":
            text = text if self.width >= _FULL_IDS_WIDTH else _with_short_ids(text)
            text.truncate(self.width, overflow="ellipsis")
        return self._styled(text)

    def _styled(self, text: Text) -> str:
        if not self.has_colour:
            return text.plain
        return "".join(styled(piece.plain, _style_of(piece)) for piece in _pieces(text))


def _pieces(text: Text) -> Lines:
    """Divide a text into the parts that it was assembled from."""
    return text.divide(sorted({offset for span in text.spans for offset in (span.start, span.end)}))


def _style_of(piece: Text) -> str:
    return str(piece.spans[0].style) if piece.spans else ""


def _with_short_ids(text: Text) -> Text:
    """Abbreviate ids to their beginning and end, which tell them apart: `evt_400…7783e9`."""
    pieces = _pieces(text)
    for piece in pieces:
        if _style_of(piece) in _ID_STYLES:
            piece.plain = _short_id(piece.plain)
    return Text().join(pieces)


def _short_id(padded: str) -> str:
    room = _ID_BEGIN + 1 + _ID_END
    if len(padded) <= room:
        return padded
    # A padded id stands in a column of ids that are just as long.
    id_ = padded.rstrip(" ")
    return f"{id_[:_ID_BEGIN]}…{id_[-_ID_END:]}" if len(id_) > room else id_.ljust(room)


def _wrapped(text: Text, width: int, indent: int) -> Iterator[Text]:
    """Break text into lines; those after the first are indented."""
    for start, end in _breaks(text.plain, width, indent):
        line = text[start:end]
        yield Text(" " * indent if start else "").append_text(line)


def _breaks(text: str, width: int, indent: int) -> Iterator[tuple[int, int]]:
    """Yield where lines begin and end: at a seam in the second half of the line, and behind its label, if it can."""
    start, room, least = 0, width, max(width // 2, indent)
    while (end := start + _fitting(text[start:], room)) < len(text):
        seams = ((text.rfind(seam, start + least, end + len(seam) - kept), kept) for seam, kept in _SEAMS.items())
        end = next((at + kept for at, kept in seams if at >= 0), end)
        yield start, end
        start = len(text) - len(text[end:].lstrip(" "))
        room = width - indent
        least = room // 2
    yield start, len(text)


def _fitting(text: str, room: int) -> int:
    """Return how many characters of `text` fit into `room` columns."""
    for index, character in enumerate(text):
        room -= cell_len(character)
        if room < 0:
            return index
    return len(text)
