"""The course of one stream within its session: what it adds to what is known, and what it proves.

What it proves about runs is in `wiretape.rules.progress`.
"""

from wiretape.contract import (
    EVENT_TYPES,
    RUN_STARTED,
    STATUS_IDLE,
    STORED_TYPES,
    STREAM_RESYNC,
    TERMINAL_RUN_TYPES,
    TOOL_TYPES,
)
from wiretape.observations import Ending
from wiretape.rules.facts import OUTPUT_TYPES, run_of
from wiretape.rules.message import Message, Shape
from wiretape.rules.past import Past
from wiretape.rules.progress import Progress
from wiretape.rules.readers import Delivery, Reader, Resync
from wiretape.rules.resumption import Resumption

_LIFE = frozenset(TOOL_TYPES)
_NEEDS_RUN = TERMINAL_RUN_TYPES | {RUN_STARTED}


class Course:
    """One stream."""

    __slots__ = (
        "blurred",
        "cursor",
        "delivery",
        "exchange",
        "gone_ns",
        "lossy",
        "opened_ns",
        "past",
        "reader",
        "resumption",
        "resync",
        "runs",
    )

    def __init__(self, past: Past, reader: Reader, exchange: int, opened_ns: int, cursor: str | None) -> None:
        self.past = past
        self.reader = reader
        self.exchange = exchange
        self.opened_ns = opened_ns
        """When it was asked for."""
        self.cursor = cursor
        self.resumption = None if cursor is None else Resumption(cursor, opened_ns, past.log)
        live = cursor is None and past.first_stream == exchange and not past.returned
        self.runs = Progress(past, reader.key, exchange, live=live)
        self.lossy = False
        """Whether bytes of it passed unseen."""
        self.blurred = False
        """Whether a message passed that was not understood, and might have been of any type."""
        self.delivery = Delivery()
        self.resync: Resync | None = None
        """The first `stream.resync` that it carried live."""
        self.gone_ns: int | None = None
        """When it ended, or bytes of it passed unseen."""

    @property
    def is_whole(self) -> bool:
        """Whether everything of the session was seen on it, from the first event on."""
        return self.past.first_stream == self.exchange and self.past.from_start and self.is_clear

    @property
    def is_clear(self) -> bool:
        """Whether all that came was seen and understood."""
        return not (self.lossy or self.blurred)

    def is_new(self, message: Message) -> bool:
        """Whether the message is not known from before; that an ephemeral one is a copy cannot be told."""
        return not message.is_durable or self.past.log.is_new(message)

    def is_fresh(self, message: Message) -> bool:
        """Whether the message was not there before this stream was asked for, as far as was seen."""
        if self.is_new(message):
            return True
        known = self.past.log.known(message)
        return known is not None and known.first_ns >= self.opened_ns

    def follow(self, message: Message) -> None:
        """A message passed, and all rules have seen it."""
        if message.is_delta:
            self._delta(message)
        elif message.is_durable:
            self._durable(message)
        elif message.shape is Shape.EPHEMERAL:
            self._ephemeral(message)
        else:
            self._unreadable(message)

    def lose(self) -> None:
        """Bytes passed that were not seen, or not understood."""
        self.lossy = True
        self.gone_ns = self.gone_ns or self.opened_ns
        self.past.clear = False
        self.runs.active.clear()
        self.delivery.unsure = True
        self.reader.losses += 1
        if self.resumption is not None:
            self.resumption.lost = True
        if self.resync is not None:
            self.resync.unsure = True

    def end(self, ending: Ending, time_ns: int) -> None:
        """The stream ended, and all rules have seen it."""
        self.gone_ns = time_ns
        self.reader.close(self.delivery, self.cursor, ending, time_ns)
        if self.resync is not None:
            self.resync.end(ending, time_ns)

    def _delta(self, message: Message) -> None:
        if self.resumption is not None:
            self.resumption.live = True
        if message.id_line is not None:
            # Some clients lose their cursor by it; that is DUR004.
            self.delivery.unsure = True
        self.runs.take_delta(message)

    def _ephemeral(self, message: Message) -> None:
        if message.type not in EVENT_TYPES:
            if "run_id" in message.document:
                self._blur()
            return
        if message.type in STORED_TYPES and self.resumption is not None:
            # It may be one that was expected; that is DUR006.
            self.resumption.lost = True
        if message.type in OUTPUT_TYPES:
            self.runs.live = True
            if self.resumption is not None:
                self.resumption.live = True
        self._learn(message, new=True)

    def _durable(self, message: Message) -> None:
        log = self.past.log
        known, new = log.known(message), log.is_new(message)
        resumption = self.resumption
        if resumption is not None:
            if not resumption.over:
                resumption.take(message, known, self.exchange)
            self._judge(resumption, message)
        if message.type not in EVENT_TYPES:
            self._blur()
        elif new or (known is not None and known.first_ns >= self.opened_ns):
            self._learn(message, new=new)
        elif message.type in TERMINAL_RUN_TYPES:
            self.runs.tell(message)
        if new:
            log.add(message)
        if message.id is not None:
            self.delivery.add(message.id, message.time_ns)
            self.reader.deliver(message.id)
            if self.resync is not None:
                self.resync.deliver(message.id, message.time_ns)

    def _judge(self, resumption: Resumption, message: Message) -> None:
        """What is one finding for the whole of a stream is not found again."""
        if resumption.sequence is not None and message.sequence is not None:
            resumption.repeated |= message.sequence <= resumption.sequence
        resumption.repeated |= message.id == resumption.cursor
        resumption.late |= resumption.live and resumption.is_replay(self.past.log.known(message))

    def _unreadable(self, message: Message) -> None:
        """A message without data, or with data that says nothing."""
        if message.id_line is not None:
            self.delivery.unsure = True
        if message.shape is Shape.OPAQUE:
            self._blur()
        if self.resumption is not None and not self.resumption.over:
            if message.id is not None and message.id in self.resumption.expected:
                self.resumption.take(message, self.past.log.known(message), self.exchange)
            elif message.shape is Shape.OPAQUE:
                self.resumption.lost = True

    def _blur(self) -> None:
        self.blurred = True
        self.past.clear = False
        self.runs.active.clear()

    def _learn(self, message: Message, *, new: bool) -> None:
        """Take in what an event says that was not replayed."""
        kind, run_id = message.type or "", run_of(message)
        if kind == STREAM_RESYNC:
            self._resync(message)
        elif kind == STATUS_IDLE:
            self.runs.idle()
        elif run_id is not None:
            self.runs.take(message, run_id, new=new)
        elif kind in _NEEDS_RUN:
            self._blur()
        if kind in _LIFE:
            self.past.work.take_call(message, run_id, self.exchange if self.runs.live else None)

    def _resync(self, message: Message) -> None:
        if self.resync is not None:
            return
        last = self.delivery.last or self.cursor
        self.resync = Resync(message.time_ns, {last, message.id or last}, unsure=self.delivery.unsure)
        self.reader.resync(self.resync)
