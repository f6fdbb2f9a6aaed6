"""The texts that deltas join to, compared."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from wiretape.json_diff import Difference
from wiretape_inspect.comparing.aligning import Key, joined
from wiretape_inspect.comparing.model import Compared, Found, Place
from wiretape_inspect.comparing.sameness import Sameness, parting
from wiretape_inspect.comparing.units import LONGEST, Spoken, StreamUnits

_SHOWN = 200
"""Characters of a text that are told from where it differs."""


class _Text(NamedTuple):
    side: int
    place: int
    said: Spoken


def compare_texts(first: StreamUnits, second: StreamUnits, sameness: Sameness, into: Compared) -> None:
    """Compare what the deltas of each type and run join to, and with `pieces` how they are cut."""
    streams = (first, second)
    left: tuple[list[_Text], list[_Text]] = ([], [])
    for here, there in joined(_texts(0, first), _texts(1, second), _keys(sameness), lambda text: text.place, left=left):
        run_is_same = sameness.ids(here.said.run_id, there.said.run_id)
        run = () if run_is_same else (Difference("run_id", here.said.run_id, there.said.run_id),)
        offset, fields = _compared(sameness, here.said, there.said)
        if run or fields:
            places = (_place(streams, here, offset), _place(streams, there, offset))
            into.add(Found("changed", "text", places, here.said.type, run_id=here.said.run_id, fields=(*run, *fields)))
    for text in left[0]:
        place = _place(streams, text, 0)
        into.add(Found("missing", "text", (place, None), text.said.type, run_id=text.said.run_id))
    for text in left[1]:
        place = _place(streams, text, 0)
        into.add(Found("added", "text", (None, place), text.said.type, run_id=text.said.run_id))


def _texts(side: int, stream: StreamUnits) -> Iterator[_Text]:
    return (_Text(side, index, said) for index, said in enumerate(stream.spoken.values()))


def _keys(sameness: Sameness) -> list[Key[_Text]]:
    partners, ids = sameness.partners, sameness.choices.ids

    def by_run(text: _Text) -> tuple[str, str | None]:
        run = text.said.run_id
        return (text.said.type, partners.of(run) if ids and text.side == 0 else run)

    return [by_run, lambda text: text.said.type] if ids else [by_run]


def _compared(sameness: Sameness, first: Spoken, second: Spoken) -> tuple[int, tuple[Difference, ...]]:
    """From which character on two texts differ, and how."""
    here, there = first.text, second.text
    cut = max(first.length, second.length) > LONGEST
    if not sameness.texts(here, there):
        offset = parting(here, there)
        says = (text[offset : offset + _SHOWN] for text in (here, there))
        return offset, (Difference(f"text[{offset}:]", *says),)
    if cut and first.length != second.length:
        return LONGEST, (Difference("characters", first.length, second.length),)
    if sameness.choices.deltas == "pieces" and first.ends != second.ends:
        pairs = zip(first.ends, second.ends, strict=False)
        offset = next((min(pair) for pair in pairs if pair[0] != pair[1]), 0)
        return offset, (Difference("pieces", len(first.ends), len(second.ends)),)
    return 0, ()


def _place(streams: tuple[StreamUnits, StreamUnits], text: _Text, offset: int) -> Place:
    """The delta that holds a character, or the last one."""
    said, number = text.said, streams[text.side].exchange.number
    at = min(bisect_right(said.ends, offset), len(said.events) - 1)
    return Place(number, said.events[at], said.times[at])
