"""The course of one stream within its session: what it adds to what is known, and what it proves.

The specification does not say of most event types whether they are stored.  One that is not may have been
sent while nobody listened, so that a run may have ended unseen.  That something has *not* happened is
therefore only taken as proven on one connection, from the moment on at which it carried live output: on the
first connection of a session from its beginning, on others from the first ephemeral event on, for the replay
comes before that.
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
from wiretape.observe import Ending
from wiretape.rules.clients import MOST_CLIENTS, Delivery, Reader, Resync
from wiretape.rules.facts import OF_A_RUN, OUTPUT_TYPES, run_of
from wiretape.rules.message import Message, Shape
from wiretape.rules.past import Past
from wiretape.rules.resumption import Resumption
from wiretape.rules.work import MOST_RUNS, Run

_LIFE = frozenset(TOOL_TYPES)
_NEEDS_RUN = TERMINAL_RUN_TYPES | {RUN_STARTED}


class Course:
    """One stream."""

    __slots__ = (
        "_noted",
        "blurred",
        "cursor",
        "delivery",
        "ended",
        "exchange",
        "gone_ns",
        "live",
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
        self.live = cursor is None and past.first_stream == exchange and not past.returned
        """Whether what comes is known to be live output."""
        self.lossy = False
        """Whether bytes of it passed unseen."""
        self.blurred = False
        """Whether a message passed that was not understood, and might have been of any type."""
        self.runs: dict[str, Run] = {}
        """The runs that were active while it was live, and that were not seen to end on it."""
        self.ended: set[str] = set()
        """The runs that ended while it was live."""
        self.delivery = Delivery()
        self.resync: Resync | None = None
        """The first `stream.resync` that it carried live."""
        self.gone_ns: int | None = None
        """When it ended, or bytes of it passed unseen."""
        self._noted: object = None

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
        return message.shape is not Shape.DURABLE or self.past.log.is_new(message)

    def is_fresh(self, message: Message) -> bool:
        """Whether the message was not there before this stream was asked for, as far as was seen."""
        if self.is_new(message):
            return True
        known = self.past.log.known(message)
        return known is not None and known.first_ns >= self.opened_ns

    def is_stray(self, message: Message, run_id: str) -> bool | None:
        """Whether an event of a run came after that had ended; None where that cannot be told."""
        if message.shape is not Shape.DURABLE:
            return run_id in self.ended
        run = self.past.work.runs.get(run_id)
        if run is None or run.ended_ns is None:
            return None if run is None and self.past.work.runs_forgotten else False
        if message.sequence is not None and run.ended_sequence is not None:
            return message.sequence > run.ended_sequence
        return True if run_id in self.ended else None

    def follow(self, message: Message) -> None:
        """A message passed, and all rules have seen it."""
        shape = message.shape
        if shape is Shape.DELTA:
            self._delta(message)
        elif shape is Shape.DURABLE:
            self._durable(message)
        elif shape is Shape.EPHEMERAL:
            self._ephemeral(message)
        else:
            self._unreadable(message)

    def lose(self) -> None:
        """Bytes passed that were not seen, or not understood."""
        self.lossy = True
        self.gone_ns = self.gone_ns or self.opened_ns
        self.past.clear = False
        self.runs.clear()
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
        self.live = True
        if self.resumption is not None:
            self.resumption.live = True
        if message.id_line is not None:
            # Some clients lose their cursor by it; that is DUR004.
            self.delivery.unsure = True
        run_id = message.document.get("run_id")
        if run_id != self._noted:
            self._note(message)
        if self.ended and type(run_id) is str and run_id in self.ended:
            self.past.work.run(run_id).stray = True

    def _ephemeral(self, message: Message) -> None:
        if message.type not in EVENT_TYPES:
            if "run_id" in message.document:
                self._blur()
            return
        if message.type in STORED_TYPES and self.resumption is not None:
            # It may be one that was expected; that is DUR006.
            self.resumption.lost = True
        if message.type in OUTPUT_TYPES:
            self.live = True
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
            self._tell(message)
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
        self.runs.clear()

    def _note(self, message: Message) -> None:
        """Remember the first event of a run, when that has not started."""
        run_id = run_of(message)
        self._noted = run_id
        if run_id is None or message.type not in OF_A_RUN:
            return
        run = self.past.work.run(run_id)
        if run.started_ns is None and run.early is None:
            run.early, run.early_sequence = message.place(self.exchange), message.sequence

    def _learn(self, message: Message, *, new: bool) -> None:
        """Take in what an event says that was not replayed."""
        kind, run_id = message.type or "", run_of(message)
        if kind == STREAM_RESYNC:
            self._resync(message)
        elif kind == STATUS_IDLE:
            self._idle()
        elif run_id is not None:
            self._run(message, kind, run_id, new=new)
        elif kind in _NEEDS_RUN:
            self._blur()
        if kind in _LIFE:
            self.past.work.take_call(message, run_id, self.exchange if self.live else None)

    def _run(self, message: Message, kind: str, run_id: str, *, new: bool) -> None:
        """An event of a run."""
        if kind == RUN_STARTED:
            self._start(self.past.work.run(run_id), run_id, message)
        elif kind in OF_A_RUN:
            stray = self.is_stray(message, run_id)
            self._note(message)
            run = self.past.work.run(run_id)
            if kind in TERMINAL_RUN_TYPES:
                self._finish(run, run_id, message)
                self._tell(message)
                return
            run.stray |= bool(stray)
            if new and self.live and message.shape is Shape.DURABLE:
                self._go_on(run, run_id)

    def _start(self, run: Run, run_id: str, message: Message) -> None:
        others = any(other is not run and other.ended_ns is None for other in self.runs.values())
        if others:
            # One of two runs is wrong, and nobody knows which (RUN001).
            self.runs.clear()
        if run.started_ns is None:
            run.started_ns = message.time_ns
        if self.live and not others:
            self._go_on(run, run_id)

    def _go_on(self, run: Run, run_id: str) -> None:
        if run.is_active and not run.idled:
            if len(self.runs) >= MOST_RUNS:
                self.runs.clear()
            self.runs[run_id] = run

    def _finish(self, run: Run, run_id: str, message: Message) -> None:
        if run.ended_ns is None:
            run.ended_ns, run.ended_type = message.time_ns, message.type
            run.ended_id, run.ended_sequence = message.id, message.sequence
        self.runs.pop(run_id, None)
        if self.live:
            if len(self.ended) >= MOST_RUNS:
                self.ended.clear()
            self.ended.add(run_id)

    def _tell(self, message: Message) -> None:
        """The client learnt that a run has ended."""
        run = self.past.work.runs.get(run_of(message) or "")
        if run is not None and len(run.told) < MOST_CLIENTS:
            run.told.add(self.reader.key)

    def _idle(self) -> None:
        for run in self.runs.values():
            run.idled = True
        self.runs.clear()

    def _resync(self, message: Message) -> None:
        if self.resync is not None:
            return
        last = self.delivery.last or self.cursor
        self.resync = Resync(message.time_ns, {last, message.id or last}, unsure=self.delivery.unsure)
        self.reader.resync(self.resync)
