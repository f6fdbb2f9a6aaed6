"""What is known of one session from all its connections."""

from wiretape.rules.log import EventLog
from wiretape.rules.message import Message
from wiretape.rules.work import Work


class Past:
    """What is known of a session from all its connections."""

    __slots__ = ("begun_late", "clear", "first_message", "first_stream", "log", "returned", "work")

    def __init__(self, log: EventLog, *, returned: bool = False) -> None:
        self.log = log
        self.work = Work()
        self.returned = returned
        """Whether it is a session that was forgotten before."""
        self.first_stream: int | None = None
        """The exchange on which its first stream was opened."""
        self.first_message: Message | None = None
        """Its first durable event."""
        self.begun_late = returned
        """Whether it had begun before the recording."""
        self.clear = True
        """Whether all that was seen of it was understood."""

    @property
    def from_start(self) -> bool:
        """Whether it was recorded from its first event, as far as can be told."""
        return self.first_message is not None and not self.begun_late

    def open(self, cursor: str | None, exchange: int) -> None:
        """A stream of it was opened."""
        if self.first_stream is None:
            self.first_stream = exchange
            self.begun_late |= cursor is not None

    def begin(self, message: Message) -> None:
        """Its first durable event came; the rules have not seen it yet."""
        self.first_message = message
        # An order number counts from 1, or from 0.
        self.begun_late |= message.sequence is not None and message.sequence > 1
