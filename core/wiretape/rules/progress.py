"""How the runs of a session go on, as far as one stream of it shows.

The specification does not say of most event types whether they are stored.  One that is not may have been
sent while nobody listened, so that a run may have ended unseen.  That something has *not* happened is
therefore only taken as proven on one connection, from the moment on at which it carried live output: on the
first connection of a session from its beginning, on others from the first ephemeral event on, for the replay
comes before that.
"""

from wiretape.contract import RUN_CANCELLED, RUN_STARTED, TERMINAL_RUN_TYPES
from wiretape.rules.facts import OF_A_RUN, OUTCOME_TYPES, run_of
from wiretape.rules.message import Message
from wiretape.rules.past import Past
from wiretape.rules.readers import MOST_CLIENTS
from wiretape.rules.work import MOST_RUNS, ClientKey, Run


class Progress:
    """The runs on one stream."""

    __slots__ = ("_exchange", "_noted", "_past", "_reader", "active", "begun", "ended", "live")

    def __init__(self, past: Past, reader: ClientKey, exchange: int, *, live: bool) -> None:
        self._past = past
        self._reader = reader
        self._exchange = exchange
        self._noted: object = None
        self.live = live
        """Whether what comes is known to be live output."""
        self.active: dict[str, Run] = {}
        """The runs that were active while it was live, and that were not seen to end on it."""
        self.ended: set[str] = set()
        """The runs that ended while it was live."""
        self.begun: set[str] = set()
        """The runs that started while it was live."""

    def is_stray(self, message: Message, run_id: str) -> bool | None:
        """Whether an event of a run came after that had ended, and should not; None where that cannot be told."""
        run = self._past.work.runs.get(run_id)
        if message.type in OUTCOME_TYPES and run is not None and run.ended_type == RUN_CANCELLED:
            # What was under way when the run was cancelled ends, too.
            return False
        if message.is_delta:
            # After a reconnect deltas can repeat, but not those of a run that had not begun before.
            return run_id in self.ended and run_id in self.begun
        if not message.is_durable:
            return run_id in self.ended
        if run is None or run.ended_ns is None:
            return None if run is None and self._past.work.runs_forgotten else False
        if message.sequence is not None and run.ended_sequence is not None:
            return message.sequence > run.ended_sequence
        return True if run_id in self.ended else None

    def take_delta(self, message: Message) -> None:
        """A delta passed."""
        self.live = True
        run_id = message.document.get("run_id")
        if run_id != self._noted:
            self._note(message)
        if self.ended and type(run_id) is str and self.is_stray(message, run_id):
            self._past.work.run(run_id).stray = True

    def take(self, message: Message, run_id: str, *, new: bool) -> None:
        """Another event of a run passed, and was not replayed; `new` when it is not known from before at all."""
        if message.type == RUN_STARTED:
            self._start(self._past.work.run(run_id), run_id, message)
        elif message.type in OF_A_RUN:
            stray = self.is_stray(message, run_id)
            self._note(message)
            run = self._past.work.run(run_id)
            if message.type in TERMINAL_RUN_TYPES:
                self._finish(run, run_id, message)
                self.tell(message)
                return
            run.stray |= bool(stray)
            if new and self.live and message.is_durable:
                self._go_on(run, run_id)

    def tell(self, message: Message) -> None:
        """The client learnt that a run has ended."""
        run = self._past.work.runs.get(run_of(message) or "")
        if run is not None and len(run.told) < MOST_CLIENTS:
            run.told.add(self._reader)

    def idle(self) -> None:
        """The session was called idle."""
        for run in self.active.values():
            run.idled = True
        self.active.clear()

    def _note(self, message: Message) -> None:
        """Remember the first event of a run, when that has not started."""
        run_id = run_of(message)
        self._noted = run_id
        if run_id is None or message.type not in OF_A_RUN:
            return
        run = self._past.work.run(run_id)
        if run.started_ns is None and run.early is None:
            run.early, run.early_sequence = message.place(self._exchange), message.sequence

    def _start(self, run: Run, run_id: str, message: Message) -> None:
        others = any(other is not run and other.ended_ns is None for other in self.active.values())
        if others:
            # One of two runs is wrong, and nobody knows which (RUN001).
            self.active.clear()
        if run.started_ns is None:
            run.started_ns = message.time_ns
        if self.live:
            _add(self.begun, run_id)
            if not others:
                self._go_on(run, run_id)

    def _go_on(self, run: Run, run_id: str) -> None:
        if run.is_active and not run.idled:
            if len(self.active) >= MOST_RUNS:
                self.active.clear()
            self.active[run_id] = run

    def _finish(self, run: Run, run_id: str, message: Message) -> None:
        if run.ended_ns is None:
            run.ended_ns, run.ended_type = message.time_ns, message.type
            run.ended_id, run.ended_sequence = message.id, message.sequence
        self.active.pop(run_id, None)
        if self.live:
            _add(self.ended, run_id)


def _add(runs: set[str], run_id: str) -> None:
    if len(runs) >= MOST_RUNS:
        runs.clear()
    runs.add(run_id)
