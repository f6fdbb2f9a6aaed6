"""Joined deltas: events of a stream that differ only in their part of a text are written as one element of a tape.

The text is written in lines, usually one for each sentence, with the size of each delta.  A delta is joined only if it
is encoded to exactly the bytes that arrived.
"""

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import chain, groupby, repeat
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from wiretape.event import Event
from wiretape.input_validation import KeyPath, Source
from wiretape.labels import count_of
from wiretape.patterns import Pointer
from wiretape.recording.formats.tape_schema import (
    MAX_TAPE_BYTES,
    STEP_NS,
    DeltasElement,
    DeltasLine,
    Description,
    Framing,
    lines_from_data,
    nanoseconds,
)
from wiretape.recording.formats.tape_yaml import Items, OneLine, Plain, format_seconds

MAX_JOINED_BYTES = 4 * MAX_TAPE_BYTES
"""Bytes that the joined deltas of a tape may stand for."""
MAX_JOINED = 200_000
"""Joined deltas of a tape."""
_FEWEST = 3
"""Fewer deltas are not joined."""
_LONGEST_LINE = 100
_SENTENCE_END = re.compile(r"(?:[.!?…][\"')\]*_]*\s+|\n)\Z")
_ID = "id"
"""Stands for the line `id` among the places of numbers."""
_NUMBER = re.compile(r"0|[1-9][0-9]{,17}")
_T = TypeVar("_T")


class JoinedSize:
    """How much the joined deltas of a tape, up to one of its elements, stand for."""

    def __init__(self) -> None:
        self._deltas = self._bytes = 0

    def add(self, deltas: int, size: int) -> None:
        """Count deltas with so many bytes each.  Raises ValueError if a tape may not have so many."""
        self._deltas += deltas
        self._bytes += deltas * size
        if self._deltas > MAX_JOINED or self._bytes > MAX_JOINED_BYTES:
            limits = f"{MAX_JOINED:,} deltas and {MAX_JOINED_BYTES >> 20} MiB"
            raise ValueError(f"the joined deltas of a tape can have up to {limits}")


class _DeltaEncoder:
    """Encodes the deltas of one element.  Raises ValueError if its data does not have what it needs."""

    def __init__(self, element: DeltasElement, framing: Framing) -> None:
        self._element = element
        self._framing = framing
        self._text = _find_place(element.deltas, element.at, str, "text")
        self._numbers = [_find_place(element.deltas, each, int, "number") for each in element.counts if each != _ID]
        self._first = [holder[key] for holder, key in self._numbers]
        self._id = element.id
        if _ID in element.counts and not (isinstance(self._id, str) and _NUMBER.fullmatch(self._id)):
            raise ValueError("expected a number as `id`, as it is counted")

    def encode(self, index: int, text: str) -> bytes:
        """Return the bytes of the delta with an index and a text.  Raises ValueError and RecursionError."""
        element, identity = self._element, self._id
        holder, key = self._text
        holder[key] = text
        for (holder, key), first in zip(self._numbers, self._first, strict=True):
            holder[key] = first + index
        if _ID in element.counts and isinstance(identity, str):
            identity = str(int(identity) + index)
        lines = lines_from_data(element.deltas, element.event, identity)
        return self._framing.encode_event(self._framing.encode_json(element.deltas), *lines)


def _find_place(data: Any, text: str, kind: type, noun: str) -> tuple[Any, Any]:
    """Return the object or list with the value at a JSON pointer, and its key or index.  Raises ValueError."""
    pointer = Pointer(text)
    if type(pointer.read(data)) is not kind:
        raise ValueError(f"expected a {noun} at {text}")
    return pointer.holder(data)


def read_deltas(
    element: DeltasElement, framing: Framing, size: JoinedSize, source: Source, path: KeyPath
) -> Iterator[tuple[int, bytes]]:
    """Yield the chunks of joined deltas: nanoseconds since the chunk before, and bytes.  Raises InputError."""
    at: KeyPath = (*path, "deltas")
    try:
        encoder, number = _DeltaEncoder(element, framing), 0
        for index, given in enumerate(element.texts):
            at = (*path, "texts", index)
            line = DeltasLine(text=given) if isinstance(given, str) else given
            sizes = [len(line.text)] if isinstance(line.sizes, UnsetType) else line.sizes
            count = _count_deltas(line, sizes)
            size.add(count, len(encoder.encode(number, "")))
            times = chain(_expand(() if isinstance(line.after, UnsetType) else line.after), repeat(UNSET))
            begin = 0
            for characters, after in zip(_expand(sizes), times, strict=False):
                after_ns = nanoseconds(after, source, (*at, "after"), STEP_NS)
                yield after_ns, encoder.encode(number, line.text[begin : begin + characters])
                begin, number = begin + characters, number + 1
    except (ValueError, RecursionError) as error:
        raise source.error(at, str(error)) from None


def _count_deltas(line: DeltasLine, sizes: Iterable[Any]) -> int:
    """Return how many deltas a line has.  Raises ValueError if its sizes and times do not fit."""
    counted = list(_counted(sizes))
    count, length = sum(often for _, often in counted), sum(characters * often for characters, often in counted)
    if min(chain.from_iterable(counted), default=0) < 0 or length != len(line.text):
        raise ValueError(
            f"expected sizes of 0 or more with a sum of {len(line.text)}, the length of the text, got {length}"
        )
    times = 0 if isinstance(line.after, UnsetType) else sum(max(0, often) for _, often in _counted(line.after))
    if times > count:
        raise ValueError(f"expected up to {count_of(count, 'time')} in `after`, one for each delta, got {times}")
    return count


def _counted(items: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    """Return values with the number of their repetitions."""
    return (item if isinstance(item, tuple) else (item, 1) for item in items)


def _expand(items: Iterable[Any]) -> Iterator[Any]:
    return chain.from_iterable(repeat(value, times) for value, times in _counted(items))


class DeltaJoiner:
    """Joins consecutive deltas while a tape is written."""

    def __init__(self, framing: Framing, size: JoinedSize) -> None:
        self._framing = framing
        self._size = size
        self._items: list[Description] = []
        """The deltas that may become one element, each as an element of its own."""
        self._parts: list[tuple[str, int]] = []
        """Their texts, and the nanoseconds since the chunk before."""

    def add(self, item: Description, delta: Event | None, after_ns: int) -> Iterator[Description]:
        """Add an element, which is a delta in one chunk if it is given; yield the elements that are complete."""
        text = None if delta is None else delta.text
        if delta is None or text is None:
            yield from self.close()
            yield item
            return
        if not (self._items and self._encodes(text, delta.raw)):
            yield from self.close()
            if not self._begin(item, delta):
                yield item
                return
        self._items.append(item)
        self._parts.append((text, after_ns))

    def close(self) -> Iterator[Description]:
        """Yield the elements of the deltas so far."""
        if len(self._items) < _FEWEST or not self._has_room():
            yield from self._items
        else:
            self._encoder.encode(0, "")
            lines = {key: value for key, value in self._items[0].items() if key in {"event", "id"}}
            counts = {"counts": list(map(Plain, self._element.counts))} if self._element.counts else {}
            texts = Items(map(_describe_line, _split_lines(self._parts)))
            yield {"deltas": self._element.deltas, "at": self._element.at, **counts, **lines, "texts": texts}
        self._items, self._parts = [], []

    def _encodes(self, text: str, raw: bytes) -> bool:
        """Whether the next delta is encoded to these bytes."""
        try:
            return self._encoder.encode(len(self._items), text) == raw
        except ValueError:  # half of a character
            return False

    def _has_room(self) -> bool:
        try:
            self._size.add(len(self._items), len(self._encoder.encode(len(self._items), "")))
        except ValueError:
            return False
        return True

    def _begin(self, item: Description, delta: Event) -> bool:
        """Begin with a delta, and return whether others can follow it."""
        pointer, sequence = delta.event_type.text, delta.format.sequence
        if pointer is None or not item.keys() <= {"after", "data", "event", "id"}:
            return False
        counts = [] if delta.sequence is None or sequence is None else [sequence.text]
        counts += [_ID] if _NUMBER.fullmatch(item.get("id") or "") else []
        data, event, identity = deepcopy(item["data"]), item.get("event", UNSET), item.get("id", UNSET)
        self._element = DeltasElement(deltas=data, at=pointer.text, counts=counts, event=event, id=identity, texts=[""])
        try:
            self._encoder = _DeltaEncoder(self._element, self._framing)
        except ValueError:
            return False
        return True


def _split_lines(parts: Iterable[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """Split deltas into lines, which end with a sentence or are long."""
    line, text = list[tuple[str, int]](), ""
    for part in parts:
        line.append(part)
        text += part[0]
        if len(text) >= _LONGEST_LINE or _SENTENCE_END.search(text):
            yield line
            line, text = [], ""
    if line:
        yield line


def _describe_line(parts: list[tuple[str, int]]) -> Description:
    texts, times = zip(*parts, strict=True)
    line: Description = {"text": "".join(texts)}
    if len(texts) > 1:
        line["sizes"] = _fold(map(len, texts))
    if given := next((times[:end] for end in range(len(times), 0, -1) if times[end - 1] != STEP_NS), ()):
        line["after"] = _fold(map(format_seconds, given))
    return line


def _fold(items: Iterable[_T]) -> OneLine:
    """Write equal neighbours once, with their number."""
    groups = ((value, sum(1 for _ in group)) for value, group in groupby(items))
    folded = ([[value, times]] if times >= _FEWEST else [value] * times for value, times in groups)
    return OneLine(chain.from_iterable(folded))
