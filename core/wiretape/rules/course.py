"""The course of one stream within its session: what it adds to what is known, and what it proves.

The specification does not say of most event types whether they are stored.  One that is not may have been
sent while nobody listened, so that a run may have ended unseen.  That something has *not* happened is
therefore only taken as proven on one connection, from the moment on at which it carried live output: on the
first connection of a session from its beginning, on others from the first ephemeral event on, for the replay
comes before that.
"""

from wiretape.contract import EVENT_TYPES, STORED_TYPES, TERMINAL_RUN_TYPES, TOOL_TYPES
from wiretape.observe import Ending
from wiretape.rules.clients import Delivery, Reader, Resync
from wiretape.rules.log import EventLog
from wiretape.rules.message import Message, Shape
from wiretape.rules.resumption import Resumption
from wiretape.rules.work import Call, Run, Work

RUN_STARTED = "run.started"
STATUS_IDLE = "session.status_idle"
RESYNC = "stream.resync"
TOOL_STARTED, CUSTOM_TOOL_USE, *OUTCOMES = TOOL_TYPES
START_TYPES = frozenset({TOOL_STARTED, CUSTOM_TOOL_USE})
OUTCOME_TYPES = frozenset(OUTCOMES)
OF_A_RUN = frozenset(name for name in EVENT_TYPES if name.partition(".")[0] not in {"session", "stream"})
"""The types of events that belong to a run."""
_NEEDS_RUN = TERMINAL_RUN_TYPES | {RUN_STARTED}


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


class Course:
    """One stream."""

    __slots__ = (
        "_noted",
        "blurred",
        "cursor",
        "delivery",
        "ended",
        "gone_ns",
        "exchange",
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

    def is_live(self, message: Message) -> bool:
        """Whether the message is known to be live output."""
        return self.live or (message.shape is not Shape.DURABLE and _is_output(message))

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
            self.resync.ending = ending

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
        if message.type in STORED_TYPES:
            # It may be one that was expected; that is DUR006.
            if self.resumption is not None:
                self.resumption.lost = True
        elif message.type != RESYNC:
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
                self.resync.delivered[message.id] = None

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
        kind, run_id = message.type, run_of(message)
        if kind == RESYNC:
            self._resync(message)
        elif kind == STATUS_IDLE:
            self._idle()
        elif run_id is None:
            if kind in _NEEDS_RUN:
                self._blur()
        elif kind == RUN_STARTED:
            self._start(self.past.work.run(run_id), run_id, message)
        elif kind in OF_A_RUN:
            if self.is_stray(message, run_id) and kind not in TERMINAL_RUN_TYPES:
                self.past.work.run(run_id).stray = True
            self._note(message)
            if kind in TERMINAL_RUN_TYPES:
                self._finish(self.past.work.run(run_id), run_id, message)
                self._tell(message)
            elif new and self.live and message.shape is Shape.DURABLE:
                self._go_on(self.past.work.run(run_id), run_id)
        if kind in TOOL_TYPES:
            self._call(message, run_id)

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
            self.runs[run_id] = run

    def _finish(self, run: Run, run_id: str, message: Message) -> None:
        if run.ended_ns is None:
            run.ended_ns, run.ended_type = message.time_ns, message.type
            run.ended_id, run.ended_sequence = message.id, message.sequence
        self.runs.pop(run_id, None)
        if self.live:
            self.ended.add(run_id)

    def _tell(self, message: Message) -> None:
        """The client learnt that a run has ended."""
        run = self.past.work.runs.get(run_of(message) or "")
        if run is not None:
            run.told.add(self.reader.key)

    def _idle(self) -> None:
        for run in self.runs.values():
            run.idled = True
        self.runs.clear()

    def _call(self, message: Message, run_id: str | None) -> None:
        work = self.past.work
        ids = call_ids(message)
        run = work.run(run_id) if run_id is not None else None
        if run is not None and not ids:
            run.unclear = True
        for call_id in ids:
            call = work.call(call_id)
            if message.type in START_TYPES:
                self._begin_call(call, call_id, run, custom=message.type == CUSTOM_TOOL_USE)
            elif not call.ended:
                call.ended, call.outcome_id = True, message.id
                if run is not None:
                    run.calls.pop(call_id, None)
            call.changed |= disagreement(call, message) is not None
            call.name, call.run_id = call.name or tool_name(message), call.run_id or run_id

    def _begin_call(self, call: Call, call_id: str, run: Run | None, *, custom: bool) -> None:
        if not call.started and self.live:
            call.exchange = self.exchange
        call.started = True
        if run is not None:
            run.called = True
            run.custom_uses += custom and not call.custom
            if not call.ended:
                run.calls[call_id] = call
        call.custom |= custom

    def _resync(self, message: Message) -> None:
        if self.resync is not None:
            return
        last = self.delivery.last or self.cursor
        self.resync = Resync(message.time_ns, {last, message.id or last}, unsure=self.delivery.unsure)
        self.reader.resyncs.append(self.resync)


def run_of(message: Message) -> str | None:
    """The run that an event belongs to, when it says so."""
    run_id = message.document.get("run_id")
    return run_id if type(run_id) is str else None


def call_ids(message: Message) -> list[str]:
    """The ids of the tool call that an event belongs to: one, or two when it contradicts itself."""
    return list(dict.fromkeys(_strings(message, "tool_call_id")))


def tool_name(message: Message) -> str | None:
    """The name of the tool, when the event says one and does not contradict itself."""
    names = set(_strings(message, "name"))
    return names.pop() if len(names) == 1 else None


def disagreement(call: Call, message: Message) -> tuple[str, str, str] | None:
    """What of a call an event says otherwise: what it is, how it was before, how it is now."""
    pairs = (("tool name", call.name, tool_name(message)), ("run", call.run_id, run_of(message)))
    for what, before, now in pairs:
        if before is not None and now is not None and before != now:
            return what, before, now
    return None


def _strings(message: Message, name: str) -> list[str]:
    parts = (message.document.get("content"), message.document.get("data"))
    found = [part.get(name) for part in parts if type(part) is dict]
    return [value for value in found if type(value) is str]


def _is_output(message: Message) -> bool:
    """Whether an ephemeral message is output of the session, which is live."""
    return message.type in EVENT_TYPES and message.type not in STORED_TYPES and message.type != RESYNC
