"""Warnings about the recording of a channel, as sentences.  Pure: no I/O, no clock."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wiretape.labels import join_first
from wiretape.rules import format_number, quote
from wiretape_replay.channel.channel_log import LogEntry

_MOST_LISTED = 3


@dataclass(slots=True)
class LogWarnings:
    """What is unusual about a channel, collected while its log is built.  Each field becomes at most one sentence."""

    durable: Sequence[LogEntry] = ()
    """The durable events in order."""
    unknown_cursors: Sequence[tuple[int, str]] = ()
    """Exchanges that resumed after an event that the recording does not contain, and their cursors."""
    out_of_order: str = ""
    """Why the events could not be put in the order of their sequences."""
    changed: list[str] = field(default_factory=list)
    """Ids of events of which another copy had a different content."""
    respelled: int = 0
    """Copies with the same JSON in different bytes."""
    repeated: list[str] = field(default_factory=list)
    """Ids that one connection carried again, with the same content."""
    reused: list[str] = field(default_factory=list)
    """Ids that one connection carried again, with a different content."""
    lost: Counter[int] = field(default_factory=Counter)
    """Lost bytes, by exchange."""
    undecodable: list[tuple[int, str]] = field(default_factory=list)
    oversized: list[int] = field(default_factory=list)
    """The bytes of each event over the size limit."""
    tails: list[int] = field(default_factory=list)
    """Exchanges whose unfinished message at the end is left out."""
    outlived: list[int] = field(default_factory=list)
    """Exchanges that the service ended while another stream of the channel continued."""
    refused: Counter[str] = field(default_factory=Counter)
    """Requests for the stream that did not get one, by what they got."""

    def sentences(self, *, expects_durable: bool = True) -> Iterator[str]:
        """One sentence for each warning; with `expects_durable`, also if there are no durable events."""
        yield from self._about_the_beginning()
        if expects_durable and not (self.durable or self.refused):
            yield "it has no durable events."
        yield from self._about_order()
        yield from self._about_ids()
        yield from self._about_bytes()
        if self.outlived:
            ended = f"the service ended {_list_exchanges(self.outlived)} while another stream of the channel continued"
            yield f"{ended}; this is not replayed as an ending."
        if self.refused:
            outcomes = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(self.refused.items()))
            yield f"{_count(self.refused.total(), 'request')} for its stream failed ({outcomes})."

    def _about_the_beginning(self) -> Iterator[str]:
        if self.unknown_cursors:
            (exchange, cursor), others = self.unknown_cursors[0], len(self.unknown_cursors) - 1
            more = f", nor do those of {_count(others, 'other exchange')}" if others else ""
            problem = f"the cursor {quote(cursor)} of exchange {exchange} matches no recorded event{more}"
            yield f"{problem}; a client that sends it gets the events that were sent then."
        # Sequences count from 1, or from 0.
        sequence = self.durable[0].sequence if self.durable and not self.out_of_order else None
        if sequence is not None and sequence > 1:
            yield f"its recording begins in the middle, with sequence {format_number(sequence)}."

    def _about_order(self) -> Iterator[str]:
        if self.out_of_order:
            yield f"{self.out_of_order}; events are replayed in the order in which they first arrived."
        without_id = sum(event.id is None for event in self.durable)
        if without_id:
            events = _count(
                without_id, "event has a sequence but no id; it is", "events have sequences but no ids; they are"
            )
            yield f"{events} replayed, but no cursor can point to {'it' if without_id == 1 else 'them'}."
        deltas = sum(event.is_optional for event in self.durable)
        if deltas:
            what = _count(deltas, "delta has an id; it is", "deltas have ids; they are")
            yield f"{what} replayed like {'a durable event' if deltas == 1 else 'durable events'}."

    def _about_ids(self) -> Iterator[str]:
        if self.changed:
            yield f"{_list_ids(self.changed)} arrived again with different content; the first version is replayed."
        if self.respelled:
            copies = _count(self.respelled, "replayed copy has", "replayed copies have")
            yield f"{copies} the same JSON in different bytes; the first version is replayed."
        if self.repeated:
            yield f"{_list_ids(self.repeated)} arrived twice on one connection, but is replayed once."
        if self.reused:
            events = f"{_list_ids(self.reused)} arrived on one connection for different events"
            yield f"{events}; all are replayed; as a cursor, the id refers to the first."

    def _about_bytes(self) -> Iterator[str]:
        if self.lost:
            what = f"{_count(self.lost.total(), 'byte')} of {_list_exchanges(sorted(self.lost))} were not recorded"
            yield f"{what}; the events that contained them are missing."
        for exchange, why in self.undecodable[:_MOST_LISTED]:
            yield f"exchange {exchange} cannot be decoded completely ({quote(why)}); the rest is missing."
        if self.oversized:
            events = f"{_count(len(self.oversized), 'event')} of up to {max(self.oversized)} bytes"
            yield f"{events} exceeded the size limit; connected clients get them, but they are never replayed."
        if self.tails:
            yield f"the unfinished event at the end of {_list_exchanges(self.tails)} is left out."


def _list_ids(ids: Iterable[str]) -> str:
    return f"id {join_first(list(map(quote, dict.fromkeys(ids))), _MOST_LISTED)}"


def _list_exchanges(numbers: Iterable[int]) -> str:
    unique = [str(number) for number in dict.fromkeys(numbers)]
    return f"exchange{'s' * (len(unique) > 1)} {join_first(unique, _MOST_LISTED)}"


def _count(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
