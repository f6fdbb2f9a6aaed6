"""Style lines for a terminal and fit them to its width."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from wiretape.safe_text import printable
from wiretape_inspect.terminal_output import STYLES, Line

MIN_WIDTH = 40
"""Columns that a terminal is assumed to have at least."""
_FULL_IDS_WIDTH = 160
"""Columns from which on there is room for ids of any length."""
_MIN_WIDTHS = {"time column": 80, "gap column": 70, "long gap column": 70}
"""Columns that a terminal needs to show a column of the timeline."""
_ID_STYLES = {"id", "call"}
_ID_BEGIN, _ID_END = 7, 6
"""Characters at the beginning and the end of an abbreviated id."""
_SEAMS = ("  ", " ", "?", "&", "/")
"""Before which text to break a long line, the best first."""


class Terminal:
    """A terminal of a width, with or without colours; or a pipe that gets colours, which has no width."""

    def __init__(self, width: int | None, *, has_colour: bool) -> None:
        self.width = width and max(width, MIN_WIDTH)
        self.has_colour = has_colour
        self._console = Console(theme=Theme(STYLES, inherit=False))

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
        if line.fit == "wrap":
            return "\n".join(map(self._styled, _wrapped(text, self.width, min(line.indent, self.width // 2))))
        if line.fit == "cut":
            text = text if self.width >= _FULL_IDS_WIDTH else _with_short_ids(text)
            text.truncate(self.width, overflow="ellipsis")
        return self._styled(text)

    def _styled(self, text: Text) -> str:
        if not self.has_colour:
            return text.plain
        segments = text.render(self._console)
        return "".join(
            style.render(part, color_system=ColorSystem.STANDARD) if style else part for part, style, _ in segments
        )


def _with_short_ids(text: Text) -> Text:
    """Abbreviate ids to their beginning and end, which tell them apart: `evt_400…7783e9`."""
    spans = [span for span in text.spans if span.style in _ID_STYLES]
    pieces = text.divide([offset for span in spans for offset in (span.start, span.end)])
    for piece in pieces:
        if piece.spans and piece.spans[0].style in _ID_STYLES:
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
    """Yield where lines begin and end: at a seam in the second half of the line if it has one."""
    start, room = 0, width
    while (end := start + _fitting(text[start:], room)) < len(text):
        seams = (text.rfind(seam, start + room // 2, end + len(seam)) for seam in _SEAMS)
        end = next((offset for offset in seams if offset >= 0), end)
        yield start, end
        start = len(text) - len(text[end:].lstrip(" "))
        room = width - indent
    yield start, len(text)


def _fitting(text: str, room: int) -> int:
    """Return how many characters of `text` fit into `room` columns."""
    for index, character in enumerate(text):
        room -= cell_len(character)
        if room < 0:
            return index
    return len(text)
