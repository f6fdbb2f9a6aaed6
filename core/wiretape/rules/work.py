"""The runs of one session and their tool calls, as far as they were seen on whatever connection."""

from wiretape.bounded_dict import make_room
from wiretape.rules.facts import CUSTOM_TOOL_USE, START_TYPES, call_ids, run_of, tool_name
from wiretape.rules.finding import Place
from wiretape.rules.message import Message

ClientKey = tuple[str, str | None]
"""Address and credential: what tells one client from all others."""

MOST_RUNS = 1000
"""How many runs of one session are remembered."""
MOST_CALLS = 5000
"""How many tool calls of one session are remembered."""


class Run:
    """What is known of one run."""

    __slots__ = (
        "called",
        "calls",
        "custom_uses",
        "early",
        "early_sequence",
        "ended_id",
        "ended_ns",
        "ended_sequence",
        "ended_type",
        "idled",
        "started_ns",
        "stray",
        "told",
        "unclear",
    )

    def __init__(self) -> None:
        self.started_ns: int | None = None
        """When `run.started` was first seen."""
        self.ended_ns: int | None = None
        """When its first terminal event was first seen."""
        self.ended_id: str | None = None
        self.ended_sequence: int | None = None
        self.ended_type: str | None = None
        self.early: Place | None = None
        """The first event of the run, when that came before `run.started`."""
        self.early_sequence: int | None = None
        self.stray = False
        """Whether an event came after its end."""
        self.idled = False
        """Whether the session was called idle before its end."""
        self.unclear = False
        """Whether an event of a tool call was not understood."""
        self.called = False
        """Whether it called a tool."""
        self.calls: dict[str, Call] = {}
        """Its calls that have begun and not ended."""
        self.custom_uses = 0
        """How many application tools it wanted executed."""
        self.told: set[ClientKey] = set()
        """The clients to whom a terminal event was delivered."""

    def call(self, call_id: str, call: "Call", *, custom: bool) -> None:
        """It calls a tool."""
        self.called = True
        if len(self.calls) >= MOST_CALLS:
            self.calls.clear()
            self.unclear = True
        if not call.ended:
            self.calls[call_id] = call
        if custom and not call.custom:
            call.custom = True
            self.custom_uses += 1

    @property
    def is_active(self) -> bool:
        """Whether it was seen to start, and not to end."""
        return self.started_ns is not None and self.ended_ns is None

    @property
    def waiting(self) -> int:
        """How many application tools wait for their result, as far as seen."""
        return sum(call.custom for call in self.calls.values())


class Call:
    """What is known of one tool call."""

    __slots__ = ("changed", "custom", "ended", "exchange", "name", "outcome_id", "run_id", "started")

    def __init__(self) -> None:
        self.name: str | None = None
        self.run_id: str | None = None
        self.started = False
        self.custom = False
        """Whether the application has to execute it."""
        self.exchange: int | None = None
        """Where its start came live."""
        self.ended = False
        self.outcome_id: str | None = None
        """The id of the event that ended it."""
        self.changed = False
        """Whether its events were seen to disagree."""

    def start(self, live: int | None) -> None:
        """It started."""
        if not self.started:
            self.exchange = live
        self.started = True


class Work:
    """The runs and tool calls of one session."""

    __slots__ = ("calls", "calls_forgotten", "runs", "runs_forgotten")

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.calls: dict[str, Call] = {}
        self.runs_forgotten = False
        """Whether there were more runs than are remembered."""
        self.calls_forgotten = False

    def run(self, run_id: str) -> Run:
        """The run of that id, from now on remembered."""
        run = self.runs.get(run_id)
        if run is None:
            self.runs_forgotten |= make_room(self.runs, MOST_RUNS, lambda old: old.ended_ns is not None)
            run = self.runs[run_id] = Run()
        return run

    def call(self, call_id: str) -> Call:
        """The call of that id, from now on remembered."""
        call = self.calls.get(call_id)
        if call is None:
            self.calls_forgotten |= make_room(self.calls, MOST_CALLS, lambda old: old.ended)
            call = self.calls[call_id] = Call()
        return call

    def take_call(self, message: Message, run_id: str | None, live: int | None) -> None:
        """A tool lifecycle event came; `live` is the exchange on which it came, if it is known to have come live."""
        ids = call_ids(message)
        run = self.run(run_id) if run_id is not None else None
        if run is not None and not ids:
            run.unclear = True
        for call_id in ids:
            call = self.call(call_id)
            if message.type in START_TYPES:
                call.start(live)
                if run is not None:
                    run.call(call_id, call, custom=message.type == CUSTOM_TOOL_USE)
            elif not call.ended:
                call.ended, call.outcome_id = True, message.id
                if run is not None:
                    run.calls.pop(call_id, None)
            if call.name is None and call.run_id is None:
                call.name, call.run_id = tool_name(message), run_id
            else:
                call.changed |= disagreement(call, message) is not None
                call.name, call.run_id = call.name or tool_name(message), call.run_id or run_id


def disagreement(call: Call, message: Message) -> tuple[str, str, str] | None:
    """What of a call an event says otherwise: what it is, how it was before, how it is now."""
    pairs = (("tool name", call.name, tool_name(message)), ("run", call.run_id, run_of(message)))
    for what, before, now in pairs:
        if before is not None and now is not None and before != now:
            return what, before, now
    return None
