"""Find the texts of a filter that run over several deltas, in the text that the deltas have when joined.

`page/joined_text_search.js` does the same for exported pages.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wiretape.event import Event, TimedFrame
from wiretape.sse import FrameKind

_MOST_HELD = 1000
"""Frames that are held back until it is known whether a text of the filter continues after them."""


@dataclass(slots=True)
class SearchedFrame:
    """A frame, and the texts of the filter that it has a part of."""

    seen: TimedFrame
    found: set[str] = field(default_factory=set)


class JoinedTextSearch:
    """Search consecutive deltas of the same type and the same run.

    Only events interrupt them: not pauses, and not findings.  A frame is held back while a text may continue after it.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        """`wanted` are texts in lower case."""
        self._beginnings = [_Beginning(text) for text in wanted]
        self._key: tuple[str, str | None] | None = None
        self._held: deque[SearchedFrame] = deque()

    def feed(self, frames: Iterable[TimedFrame]) -> Iterator[SearchedFrame]:
        """Yield the frames for which the search is complete."""
        for seen in frames:
            searched = SearchedFrame(seen)
            if isinstance(seen, Event):
                self._search(seen, searched.found)
            elif seen.frame.kind in {FrameKind.TAIL, FrameKind.OVERSIZED}:
                self.interrupt()
            self._held.append(searched)
            if len(self._held) > _MOST_HELD:
                self.interrupt()
            yield from self._complete()

    def interrupt(self) -> None:
        """No text continues after this."""
        self._key = None
        for each in self._beginnings:
            each.clear()

    def release(self) -> Iterator[SearchedFrame]:
        """Yield the frames that are held back, although a text may continue after them."""
        while self._held:
            yield self._held.popleft()

    def _search(self, event: Event, found: set[str]) -> None:
        key = (event.type, event.run_id) if event.kind == "delta" else None
        if key is None or key != self._key:
            self.interrupt()
        self._key = key
        if event.delta_text:
            text = event.delta_text.lower()
            for each in self._beginnings:
                each.extend(text, found)

    def _complete(self) -> Iterator[SearchedFrame]:
        """Yield the frames before the first delta that a text may continue after."""
        held, open_ = self._held, [each.deltas[0][1] for each in self._beginnings if each.deltas]
        while held and not any(held[0].found is found for found in open_):
            yield held.popleft()


class _Beginning:
    """The longest end of the joined text with which a wanted text may begin."""

    def __init__(self, wanted: str) -> None:
        self.deltas: list[tuple[int, set[str]]] = []
        """The deltas that have a part of it: where their part ends, and the texts that were found in them."""
        self._wanted = wanted
        self._text = ""

    def clear(self) -> None:
        self.deltas.clear()
        self._text = ""

    def extend(self, text: str, found: set[str]) -> None:
        """Add the text of the next delta, and add the wanted text to what was `found` in each delta of a match.

        Matches within one delta are left out: a filter finds them in its own text.
        """
        wanted, before = self._wanted, len(self._text)
        if before:
            text = self._text + text
        self.deltas.append((len(text), found))
        at = text.find(wanted, 0, before + len(wanted) - 1) if before else -1
        while at >= 0:
            self._mark(at, at + len(wanted))
            at = text.find(wanted, at + 1, before + len(wanted) - 1)
        self._keep(text)

    def _mark(self, start: int, end: int) -> None:
        begin = 0
        for until, found in self.deltas:
            if begin < end and start < until:
                found.add(self._wanted)
            begin = until

    def _keep(self, text: str) -> None:
        """Keep the longest end of the text with which the wanted text begins, and its deltas."""
        wanted = self._wanted
        at = text.find(wanted[0], max(len(text) - len(wanted) + 1, 0))
        while at >= 0 and not wanted.startswith(text[at:]):
            at = text.find(wanted[0], at + 1)
        if at < 0:
            self.clear()
            return
        self._text = text[at:]
        self.deltas = [(until - at, found) for until, found in self.deltas if until > at]
