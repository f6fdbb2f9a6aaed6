"""What is odd about the recording of a session, in sentences for people.  Pure: no I/O, no clock."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wiretape.contract import DELTA_TYPES
from wiretape.rules import format_number, quote
from wiretape_replay.session.recorded.draft_entry import DraftEntry

_MOST_NAMED = 3


@dataclass(slots=True)
class LogWarnings:
    """Notes while a log is built; each becomes at most one sentence."""

    durable: Sequence[DraftEntry] = ()
    """The durable events in order."""
    earlier: Sequence[tuple[int, str]] = ()
    """Exchanges that went on after the cursor of an event that the recording does not show, and that cursor."""
    out_of_order: str = ""
    """Why the events could not be put in the order of their sequences."""
    changed: list[str] = field(default_factory=list)
    """Ids of which another copy had another content."""
    respelled: int = 0
    """Copies with the same JSON in other bytes."""
    repeated: list[str] = field(default_factory=list)
    """Ids that came again, the same, on one connection."""
    reused: list[str] = field(default_factory=list)
    """Ids that came again on one connection, with another content."""
    lost: Counter[int] = field(default_factory=Counter)
    """Bytes that were not recorded, by exchange."""
    undecodable: list[tuple[int, str]] = field(default_factory=list)
    oversized: list[int] = field(default_factory=list)
    """Bytes of each event over the size limit."""
    tails: list[int] = field(default_factory=list)
    """Exchanges of which an unfinished message at the end is left out."""
    outlived: list[int] = field(default_factory=list)
    """Exchanges that the service ended while another of the session went on."""
    refused: Counter[str] = field(default_factory=Counter)
    """Requests for the stream that were not answered with one, by what came instead."""

    def sentences(self) -> Iterator[str]:
        """One for each thing that is odd."""
        yield from self._about_the_beginning()
        yield from self._about_order()
        yield from self._about_ids()
        yield from self._about_bytes()
        if self.outlived:
            went_on = f"the service ended {_exchanges(self.outlived)} while another stream of it went on"
            yield f"{went_on}; that is not served as an end."
        if self.refused:
            what = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(self.refused.items()))
            yield f"{_count(self.refused.total(), 'request')} for its stream got something else ({what})."

    def _about_the_beginning(self) -> Iterator[str]:
        if self.earlier:
            (exchange, cursor), others = self.earlier[0], len(self.earlier) - 1
            more = f", nor that of {_count(others, 'other')}" if others else ""
            what = f"the cursor {quote(cursor)} of exchange {exchange} is that of no recorded event{more}"
            yield f"{what}; it gives what was sent after it."
        # An order number counts from 1, or from 0.
        sequence = self.durable[0].sequence if self.durable and not self.out_of_order else None
        if sequence is not None and sequence > 1:
            yield f"the recording begins in the middle of it, with sequence {format_number(sequence)}."

    def _about_order(self) -> Iterator[str]:
        if self.out_of_order:
            yield f"{self.out_of_order}; events are served in the order in which they first came."
        if not (self.durable or self.refused):
            yield "it has no durable event."
        without_id = sum(piece.id is None for piece in self.durable)
        if without_id:
            events = _count(without_id, "event")
            yield f"{events} with a sequence had no id; they are replayed, but no cursor names them."
        deltas = sum(piece.type in DELTA_TYPES for piece in self.durable)
        if deltas:
            yield f"{_count(deltas, 'delta')} had an id; they are replayed as durable events are."

    def _about_ids(self) -> Iterator[str]:
        if self.changed:
            yield f"{_named(self.changed)} came with another content later; the first is served."
        if self.respelled:
            copies = _count(self.respelled, "replayed copy", "replayed copies")
            yield f"{copies} had the same JSON in other bytes; those that came first are served."
        if self.repeated:
            yield f"{_named(self.repeated)} came twice on one connection; it is served once."
        if self.reused:
            several = f"{_named(self.reused)} came on one connection for different events"
            yield f"{several}; all are served, and as a cursor it names the first."

    def _about_bytes(self) -> Iterator[str]:
        if self.lost:
            what = f"{_count(self.lost.total(), 'byte')} of {_exchanges(sorted(self.lost))} were not recorded"
            yield f"{what}; the events that they belonged to are missing."
        for exchange, why in self.undecodable[:_MOST_NAMED]:
            yield f"exchange {exchange} cannot be decoded to its end ({quote(why)}); what follows there is missing."
        if self.oversized:
            what = f"{_count(len(self.oversized), 'event')} of up to {max(self.oversized)} bytes"
            yield f"{what} went over the size limit; served to those who listen, but never replayed."
        if self.tails:
            yield f"the unfinished event at the end of {_exchanges(self.tails)} is left out."


def _named(ids: Iterable[str]) -> str:
    """The first few ids; `ids` in any number."""
    every = list(dict.fromkeys(ids))
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return f"id {', '.join(quote(identity) for identity in every[:_MOST_NAMED])}{more}"


def _exchanges(numbers: Iterable[int]) -> str:
    every = list(dict.fromkeys(numbers))
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return f"exchange{'s' * (len(every) > 1)} {', '.join(map(str, every[:_MOST_NAMED]))}{more}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
