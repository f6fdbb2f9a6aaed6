"""Select the part of a recording that options name: by channel, exchange and time."""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from wiretape.errors import InputError
from wiretape.labels import join_first
from wiretape.observations import BytesArrived, Observation, last_time_ns
from wiretape.recording import Capture, Exchange, Recording
from wiretape.safe_text import printable
from wiretape_inspect.timeline_text import previews

ObservationReader = Callable[[], Iterator[Observation]]
"""Reads the selected observations in order of time; may be called repeatedly."""
_QUOTED = re.compile(r'"([^"\\]+)"')
_MAX_LISTED = 5
"""Number of channels or streams that an error message lists."""


def select_exchanges(
    recording: Recording, *, channel: str | None = None, number: int | None = None
) -> Iterator[Exchange]:
    """Return all exchanges, those of a channel, or one.  Raises InputError, at once, if there are none."""
    chosen = recording.exchanges() if number is None else iter([recording.exchange(number)])
    found = name_channels(recording, chosen, channels_of(recording.exchanges()))
    if number is not None or channel is None:
        return found
    selected = (exchange for exchange in found if exchange.channel == channel)
    first = next(selected, None)
    if first is None:
        name = recording.vocabularies[0].channel.replace("_", " ") if recording.vocabularies else "channel"
        problem = f"There is no {name} {printable(channel)} in this recording"
        raise _selection_error(problem, name, f"{name}s", _channel_names(recording))
    return chain([first], selected)


def name_channels(recording: Recording, exchanges: Iterable[Exchange], channels: Collection[str]) -> Iterator[Exchange]:
    """Yield exchanges; a request without a channel belongs to the one of `channels` that its bodies begin to name."""
    for exchange in exchanges:
        if exchange.channel is not None or not channels or exchange.is_stream:
            yield exchange
            continue
        words = _QUOTED.findall(" ".join(previews(recording, exchange).values()))
        yield replace(exchange, channel=next((word for word in words if word in channels), None))


def channels_of(exchanges: Iterable[Exchange]) -> frozenset[str]:
    """Return the channels that requests name."""
    return frozenset(exchange.channel for exchange in exchanges if exchange.channel is not None)


def select_stream(recording: Recording, number: int | None) -> Exchange:
    """Return the stream with this number, or the only stream.  Raises InputError."""
    if number is not None:
        exchange = recording.exchange(number)
        if not exchange.is_stream:
            raise _no_stream_error(recording, f"Exchange {number} is not an event stream")
        return exchange
    found = list(islice((exchange for exchange in recording.exchanges() if exchange.is_stream), 2))
    if len(found) != 1:
        raise _no_stream_error(recording, "Choose a stream with --exchange")
    return found[0]


def _channel_names(recording: Recording) -> list[str]:
    names = dict.fromkeys(exchange.channel for exchange in recording.exchanges() if exchange.channel)
    return [printable(name) for name in names]


def _no_stream_error(recording: Recording, problem: str) -> InputError:
    numbers = [str(exchange.number) for exchange in recording.exchanges() if exchange.is_stream]
    names = [f"exchange{'' if len(numbers) == 1 else 's'} {number}" for number in numbers[:1]] + numbers[1:]
    return _selection_error(problem, "event stream", "event streams", names)


def _selection_error(problem: str, singular: str, plural: str, names: list[str]) -> InputError:
    """Return an error that lists what the recording has: `PROBLEM; the channels are c1, c2 and 3 more`."""
    if not names:
        return InputError(f"The recording has no {plural}.")
    if len(names) == 1:
        return InputError(f"{problem}; the only {singular} is {names[0]}.")
    return InputError(f"{problem}; the {plural} are {join_first(names, _MAX_LISTED)}.")


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """What to keep; None or empty for everything."""

    channel: str | None = None
    numbers: tuple[int, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None

    def select_exchanges(self, recording: Recording) -> frozenset[int]:
        """The numbers of the exchanges to keep.  Raises InputError if one does not exist, or none is left."""
        for number in self.numbers:
            recording.exchange(number)
        candidates = select_exchanges(recording, channel=self.channel)
        kept = frozenset(exchange.number for exchange in candidates if self._includes(exchange))
        if not kept:
            raise InputError("No exchanges are left: select other exchanges or another time range.")
        return kept

    def _includes(self, exchange: Exchange) -> bool:
        if self.numbers and exchange.number not in self.numbers:
            return False
        if self.until_ns is not None and exchange.request.time_ns > self.until_ns:
            return False
        return self.since_ns is None or exchange.ended_ns is None or exchange.ended_ns >= self.since_ns


def read_part(recording: Recording, kept: Collection[int], until_ns: int | None) -> Iterator[Observation]:
    """The observations of some exchanges up to a time."""
    return cut_after((seen for seen in recording.observations() if seen.exchange in kept), until_ns)


def cut_after(observations: Iterable[Observation], until_ns: int | None) -> Iterator[Observation]:
    """The observations up to a time; a run of bytes is cut there."""
    for seen in observations:
        if until_ns is None:
            yield seen
        elif seen.time_ns > until_ns:
            return
        elif isinstance(seen, BytesArrived) and seen.times[-1] > until_ns:
            count = bisect_right(seen.times, until_ns)
            ends, data = seen.ends[:count], seen.data[: seen.ends[count - 1] - seen.start]
            yield BytesArrived(seen.exchange, seen.side, seen.start, data, ends, seen.times[:count])
        else:
            yield seen


def closed_captures(recording: Recording) -> tuple[Capture, ...]:
    """The captures of a recording; if it was never closed, the last one ends with the last observation."""
    captures = recording.captures()
    if captures[-1].ended_ns is None:
        times = (last_time_ns(seen) for seen in recording.observations())
        captures[-1] = replace(captures[-1], ended_ns=max(captures[-1].began_ns, max(times, default=0)))
    return tuple(captures)
