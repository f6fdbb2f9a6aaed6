"""Findings at their places in a recording.  Streams: nothing is read twice for findings in a row."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from wiretape.frame_reader import SeenFrame
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding

_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Spot:
    """A frame of a stream, and where it stands in what `wiretape export --format sse` writes."""

    seen: SeenFrame
    line: int
    """The line, from 1, at which it begins there."""
    exported: int
    """The offset there, which is less than that in the body where bytes were lost."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One finding, its exchange, and the frame that it points at."""

    number: int
    """Its place in the order of the report."""
    finding: Finding
    exchange: Exchange
    here: Spot | None
    """None where it points at no frame."""
    before: Spot | None
    """The message before that on the same connection."""


def placed(recording: Recording, findings: Iterable[tuple[int, Finding]]) -> Iterator[Placed]:
    """Findings, numbered and in the order of a report, with what is at their places."""
    # In the report those about no event come first, but an unfinished message stands at the stream's end.
    for (number, _), group in groupby(findings, key=lambda item: (item[1].exchange, item[1].event is None)):
        yield from _in_order(recording, recording.exchange(number), group)


def _in_order(recording: Recording, exchange: Exchange, findings: Iterable[tuple[int, Finding]]) -> Iterator[Placed]:
    """Findings whose offsets grow, with the frames that begin there."""
    spots = _spots(recording, exchange)
    here = before = None
    for number, finding in findings:
        offset = finding.byte_offset
        if offset is None:
            # Nothing tells where it is; the stream is not read on for it.
            yield Placed(number, finding, exchange, None, None)
            continue
        while here is None or here.seen.frame.start < offset:
            following = next(spots, None)
            if following is None:
                break
            before = here if here is not None and here.seen.event is not None else before
            here = following
        found = here is not None and here.seen.frame.start == offset
        yield Placed(number, finding, exchange, here if found else None, before if found else None)


def _spots(recording: Recording, exchange: Exchange) -> Iterator[Spot]:
    line, exported = 1, 0
    for seen in recording.frames(exchange.number):
        yield Spot(seen, line, exported)
        line += len(_LINE_END.findall(seen.frame.raw))
        exported += len(seen.frame.raw)
