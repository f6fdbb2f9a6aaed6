"""Two recordings compared, one pair of exchanges after the other."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from wiretape.json_diff import Difference
from wiretape.recording import Exchange, Recording
from wiretape_inspect.comparing.choices import STRICT, Choices
from wiretape_inspect.comparing.heads import Heads
from wiretape_inspect.comparing.model import Compared, Found, Kind, Place
from wiretape_inspect.comparing.pairing import paired, same_sessions, sessions_of
from wiretape_inspect.comparing.sameness import Sameness
from wiretape_inspect.comparing.speaking import compare_texts
from wiretape_inspect.comparing.streams import compare_events
from wiretape_inspect.comparing.units import StreamUnits


@dataclass(slots=True)
class Total:
    """What came of a comparison."""

    exchanges: int = 0
    """Pairs of exchanges that were compared."""
    events: int = 0
    """Messages of the streams among them, of both recordings."""
    counts: Counter[Kind] = field(default_factory=Counter)
    omitted: int = 0
    alone: Counter[Kind] = field(default_factory=Counter)
    """Of these, exchanges that only one recording has."""

    @property
    def equal(self) -> bool:
        """Whether nothing was found."""
        return not self.counts

    def add(self, compared: Compared) -> None:
        """Count a result."""
        self.exchanges += compared.first is not None and compared.second is not None
        self.events += compared.events
        self.counts += compared.counts
        self.omitted += compared.omitted
        self.alone.update(found.kind for found in compared.found if found.what == "exchange" and None in found.places)


class Comparison:
    """Compares two recordings, which may be the same one."""

    def __init__(self, first: Recording, second: Recording, choices: Choices = STRICT) -> None:
        self._recordings = (first, second)
        self._choices = choices
        self._sameness = Sameness(choices)
        self._heads = Heads(first, second, self._sameness)

    def all(self) -> Iterator[Compared]:
        """Every exchange, in the order of the first recording; those that only the second has come last."""
        first, second = self._recordings
        ids = self._choices.ids
        names = (sessions_of(first.exchanges()), sessions_of(second.exchanges()))
        pairing = paired(first.exchanges(), second.exchanges(), same_sessions(*names, ids=ids), ids=ids)
        pairs: list[tuple[int, int | None]] = [*pairing.pairs, *((number, None) for number in pairing.first)]
        for here, there in sorted(pairs, key=lambda pair: pair[0]):
            exchange = first.exchange(here)
            yield self._alone(exchange, None) if there is None else self.pair(exchange, second.exchange(there))
        for number in pairing.second:
            yield self._alone(None, second.exchange(number))

    def pair(self, first: Exchange, second: Exchange) -> Compared:
        """Two exchanges."""
        found = Compared(first, second, self._choices.most)
        fields = [*self._heads.request(first, second), *self._heads.response(first, second)]
        cut = (False, False)
        if first.is_stream and second.is_stream:
            cut = self._streams(first, second, found, fields)
        fields += _ends(first, second, cut)
        if fields:
            places = (_place(first), _place(second))
            found.add(Found("changed", "exchange", places, fields=tuple(fields)))
        self._time(first, second, found)
        found.sort()
        return found

    def _streams(
        self, first: Exchange, second: Exchange, found: Compared, fields: list[Difference]
    ) -> tuple[bool, bool]:
        """Compare streams; returns of each whether it ended within an event."""
        pairs = zip(self._recordings, (first, second), strict=True)
        here, there = (StreamUnits(recording, exchange, self._choices) for recording, exchange in pairs)
        compare_events(here, there, self._sameness, found)
        compare_texts(here, there, self._sameness, found)
        if here.undecodable != there.undecodable:
            fields.append(Difference("response body cannot be decoded", here.undecodable, there.undecodable))
        return here.cut, there.cut

    def _time(self, first: Exchange, second: Exchange, found: Compared) -> None:
        """How long both took to answer."""
        tolerance = self._choices.tolerance_ns
        waits = [
            exchange.response.time_ns - exchange.request.time_ns for exchange in (first, second) if exchange.response
        ]
        if tolerance is not None and len(waits) == 2 and abs(waits[1] - waits[0]) > tolerance:
            places = (_place(first), _place(second))
            found.add(Found("time", "exchange", places, later_ns=waits[1] - waits[0]))

    def _alone(self, first: Exchange | None, second: Exchange | None) -> Compared:
        found = Compared(first, second, self._choices.most)
        places = (_place(first) if first else None, _place(second) if second else None)
        found.add(Found("missing" if first else "added", "exchange", places))
        return found


def _place(exchange: Exchange) -> Place:
    return Place(exchange.number, None, exchange.request.time_ns)


def _ends(first: Exchange, second: Exchange, cut: tuple[bool, bool]) -> Iterator[Difference]:
    if (first.ending, cut[0]) != (second.ending, cut[1]):
        said = [
            f"{exchange.ending.value}{' in mid-event' if in_event else ''}"
            for exchange, in_event in zip((first, second), cut, strict=True)
        ]
        yield Difference("ending", *said)
    if first.lost_bytes != second.lost_bytes:
        yield Difference("bytes not recorded", first.lost_bytes, second.lost_bytes)
