"""A stream that was opened with a cursor: what has to be replayed on it, and what was."""

from wiretape.rules.finding import Place
from wiretape.rules.log import EventLog, Known
from wiretape.rules.message import Message


class Resumption:
    """The replay on one connection.

    It is over when a durable event comes that was not seen before the connection was opened, or when the
    connection ends.  Only what was seen before then can be expected.
    """

    __slots__ = (
        "asked",
        "cursor",
        "expected",
        "late",
        "live",
        "lost",
        "missing",
        "opened_ns",
        "over",
        "partial",
        "place",
        "repeated",
        "replayed",
        "sequence",
    )

    def __init__(self, cursor: str, opened_ns: int, log: EventLog) -> None:
        known = log.events.get(cursor)
        self.cursor = cursor
        self.opened_ns = opened_ns
        self.sequence = known.sequence if known is not None else None
        """The sequence of the cursor, where the recording shows it."""
        self.expected: dict[str, int] = {} if self.sequence is None else log.after(self.sequence, opened_ns)
        """The sequence of each event that has still to be replayed, by its id, in ascending order."""
        self.partial = self.sequence is None or (log.floor is not None and self.sequence < log.floor)
        """Whether more may have to be replayed than is known."""
        self.missing: dict[str, int] = {}
        """Those that were passed over."""
        self.place: Place | None = None
        """The first event behind one that is missing."""
        self.replayed = False
        """Whether any of them came."""
        self.lost = False
        """Whether some of them may have passed unseen."""
        self.over = False
        self.asked = False
        """Whether the rules have been asked about the replay as a whole."""
        self.live = False
        """Whether an ephemeral event came, so that live output had begun."""
        self.repeated = False
        """Whether an event came that is not after the cursor."""
        self.late = False
        """Whether an event was replayed after live output had begun."""

    def is_replay(self, known: Known | None) -> bool:
        """Whether an event of which this is known was there before the connection was opened."""
        return known is not None and known.first_ns < self.opened_ns

    def skips(self, sequence: int) -> bool:
        """Whether something that has still to be replayed stands before `sequence`."""
        return not self.over and next(iter(self.expected.values()), sequence) < sequence

    def take(self, message: Message, known: Known | None, exchange: int) -> None:
        """A message with an id or a sequence came, before the replay was over."""
        identity = message.id or ""
        sequence = self.expected.pop(identity, message.sequence)
        if self.missing.pop(identity, None) is not None:
            self.replayed = True
            return
        if sequence is not None:
            self._pass(sequence, message, exchange)
        if self.is_replay(known):
            self.replayed = True
        elif message.is_durable and message.sequence is not None:
            self.over = True

    def _pass(self, sequence: int, message: Message, exchange: int) -> None:
        """What stands before `sequence` and has not come is missing."""
        while self.expected:
            identity = next(iter(self.expected))
            if self.expected[identity] > sequence:
                return
            other = self.expected.pop(identity)
            # An event may come under another id; that is SEQ002.
            if other < sequence:
                self.missing[identity] = other
                self.place = self.place or message.place(exchange)
