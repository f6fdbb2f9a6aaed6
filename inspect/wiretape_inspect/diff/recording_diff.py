"""Compare two recordings, one pair of exchanges after the other."""

from collections.abc import Iterator

from wiretape.json_diff import Difference
from wiretape.recording import Exchange, Recording
from wiretape_inspect.diff.delta_text_diff import compare_texts
from wiretape_inspect.diff.diff_model import DiffEntry, DiffOptions, ExchangeDiff, Location
from wiretape_inspect.diff.exchange_diff import ExchangeComparison
from wiretape_inspect.diff.exchange_pairing import pair_exchanges, pair_sessions, session_ids
from wiretape_inspect.diff.stream_diff import compare_events
from wiretape_inspect.diff.stream_items import StreamItems
from wiretape_inspect.diff.value_comparison import ValueComparison

_DEFAULTS = DiffOptions()


class RecordingDiff:
    """Compares two recordings, which may be the same one."""

    def __init__(self, first: Recording, second: Recording, options: DiffOptions = _DEFAULTS) -> None:
        self._recordings = (first, second)
        self._options = options
        self._values = ValueComparison(options)
        self._exchanges = ExchangeComparison(first, second, self._values)

    def compare_all(self) -> Iterator[ExchangeDiff]:
        """Compare all exchanges, in the order of the first recording; those that only the second has come last."""
        first, second = self._recordings
        ids = self._options.ids
        sessions = pair_sessions(session_ids(first.exchanges()), session_ids(second.exchanges()), ids=ids)
        paired = pair_exchanges(first.exchanges(), second.exchanges(), sessions, ids=ids)
        pairs: list[tuple[int, int | None]] = [*paired.pairs, *((number, None) for number in paired.first)]
        for here, there in sorted(pairs, key=lambda pair: pair[0]):
            exchange = first.exchange(here)
            if there is None:
                yield self._unpaired(exchange, None)
            else:
                yield self.compare_pair(exchange, second.exchange(there))
        for number in paired.second:
            yield self._unpaired(None, second.exchange(number))

    def compare_pair(self, first: Exchange, second: Exchange) -> ExchangeDiff:
        """Compare two exchanges."""
        diff = ExchangeDiff(first, second, self._options.limit)
        fields = [*self._exchanges.request(first, second), *self._exchanges.response(first, second)]
        is_cut = (False, False)
        if first.is_stream and second.is_stream:
            is_cut = self._compare_streams(first, second, diff, fields)
        fields += _ending_differences(first, second, is_cut)
        if fields:
            locations = (_location(first), _location(second))
            diff.add(DiffEntry("changed", "exchange", locations, fields=tuple(fields)))
        self._compare_response_times(first, second, diff)
        diff.sort()
        return diff

    def _compare_streams(
        self, first: Exchange, second: Exchange, diff: ExchangeDiff, fields: list[Difference]
    ) -> tuple[bool, bool]:
        """Compare two streams; returns for each whether it ends in the middle of an event."""
        pairs = zip(self._recordings, (first, second), strict=True)
        here, there = (StreamItems(recording, exchange, self._options) for recording, exchange in pairs)
        compare_events(here, there, self._values, diff)
        compare_texts(here, there, self._values, diff)
        if here.undecodable != there.undecodable:
            fields.append(Difference("response body cannot be decoded", here.undecodable, there.undecodable))
        return here.is_cut, there.is_cut

    def _compare_response_times(self, first: Exchange, second: Exchange, diff: ExchangeDiff) -> None:
        tolerance = self._options.tolerance_ns
        waits = [
            exchange.response.time_ns - exchange.request.time_ns for exchange in (first, second) if exchange.response
        ]
        if tolerance is not None and len(waits) == 2 and abs(waits[1] - waits[0]) > tolerance:
            locations = (_location(first), _location(second))
            diff.add(DiffEntry("time", "exchange", locations, later_ns=waits[1] - waits[0]))

    def _unpaired(self, first: Exchange | None, second: Exchange | None) -> ExchangeDiff:
        diff = ExchangeDiff(first, second, self._options.limit)
        locations = (_location(first) if first else None, _location(second) if second else None)
        diff.add(DiffEntry("missing" if first else "added", "exchange", locations))
        return diff


def _location(exchange: Exchange) -> Location:
    return Location(exchange.number, None, exchange.request.time_ns)


def _ending_differences(first: Exchange, second: Exchange, is_cut: tuple[bool, bool]) -> Iterator[Difference]:
    if (first.ending, is_cut[0]) != (second.ending, is_cut[1]):
        endings = [
            f"{exchange.ending.value}{' in mid-event' if cut else ''}"
            for exchange, cut in zip((first, second), is_cut, strict=True)
        ]
        yield Difference("ending", *endings)
    if first.lost_bytes != second.lost_bytes:
        yield Difference("bytes not recorded", first.lost_bytes, second.lost_bytes)
