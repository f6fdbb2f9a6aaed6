"""Lines as texts with styles, cut or broken to the width that there is.  Pure."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size

Span = tuple[str, str]
"""A text and the name of its style."""

_SEAMS = ("  ", " ", "?", "&", "/")
"""Before what a line that is too long is best broken, the best first."""


def text_of(spans: Iterable[Span]) -> str:
    """The text of a line."""
    return "".join(text for text, _ in spans)


def cut(spans: Iterable[Span], left: int) -> Iterator[Span]:
    """Spans as far as there is room for them."""
    for text, style in spans:
        fits = cell_len(text) <= left
        yield text if fits else set_cell_size(text, max(left - 1, 0)).rstrip() + "…" * (left > 0), style
        left = max(left - cell_len(text), 0)


def wrapped(spans: Sequence[Span], width: int) -> Iterator[list[Span]]:
    """Spans as lines, those after the first indented by the length of the first span."""
    indent = min(cell_len(spans[0][0]), width // 2) if len(spans) > 1 else 0
    for start, end in _breaks(text_of(spans).rstrip(), width, indent):
        yield [(" " * indent if start else "", ""), *_between(spans, start, end)]


def _breaks(text: str, width: int, indent: int) -> Iterator[tuple[int, int]]:
    """Where lines begin and end: at blanks, or the parts of an address, if any are in the second half of a line."""
    start, room = 0, width
    while (end := start + _fitting(text[start:], room)) < len(text):
        seams = (text.rfind(seam, start + room // 2, end + len(seam)) for seam in _SEAMS)
        end = next((at for at in seams if at >= 0), end)
        yield start, end
        start = len(text) - len(text[end:].lstrip(" "))
        room = width - indent
    yield start, end


def _fitting(text: str, room: int) -> int:
    """How many characters of `text` there is room for."""
    for index, character in enumerate(text):
        room -= cell_len(character)
        if room < 0:
            return index
    return len(text)


def _between(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """What of the spans stands between two characters of their text."""
    at = 0
    for text, style in spans:
        yield text[max(start - at, 0) : max(end - at, 0)], style
        at += len(text)
