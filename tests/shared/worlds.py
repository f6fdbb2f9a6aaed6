"""A small world of services, sessions and clients that keep the specification and use the freedom it leaves.

Everything is chosen by one seeded source of chance.  What passes is noted as observations, in order of time.
"""

import json
from collections import deque
from dataclasses import dataclass, field

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape_contracts.agent_sessions import ERROR_CODES, EVENT_TYPES, STORED_TYPES

SECOND = 1_000_000_000
APART = 10
"""Nanoseconds between two notes: more than the writer needs for what it held back."""
STREAM_HEAD = (("Content-Type", "text/event-stream; charset=utf-8"),)
JSON_HEAD = (("Content-Type", "application/json"),)
PLAIN_TYPES = ["message.started", "message.completed", "reasoning.message", "sandbox.recreated"]
DELTA_TYPES = ["message.delta", "reasoning.delta", "intermediate.delta"]
OUTCOMES = ["tool.completed", "tool.failed"]
ENDS = ["run.completed", "run.failed", "run.cancelled"]


@dataclass
class Message:
    """An event on its way: the name, the id line, the JSON."""

    kind: str
    id: str | None
    document: dict
    emitted_ns: int = 0


@dataclass
class Connection:
    """A stream that is open, as the service sees it."""

    number: int
    cursor: str | None
    deltas: bool
    line_end: str
    queue: deque = field(default_factory=deque)
    rest: bytes = b""
    current: Message | None = None
    sent: int = 0
    heard_ns: int = 0
    answered: bool = False
    received: list = field(default_factory=list)
    """Of each durable event that was delivered, time and id."""
    old: list = field(default_factory=list)
    """Deltas from before it was opened, which may come again."""
    resync: bool = False
    """Whether the client was told to reconnect, and has not yet done so."""

    @property
    def last(self):
        return self.received[-1][1] if self.received else self.cursor


class Session:
    """A session as the service has it."""

    def __init__(self, world, name, first):
        self.world, self.name = world, name
        self.path = f"/v1/sessions/{name}"
        self.sequence = first - 1
        self.log = []
        self.connections = []
        self.recent = deque(maxlen=3)
        self.runs = 0
        self.run = None
        self.ended = []
        self.calls = {}
        self.watched = False

    def emit(self, kind, *, stored=None, document=None, run=None, queue=True):
        """Something happens: it is stored, or not, and goes to everybody who listens."""
        world = self.world
        if stored is None:
            # What is not stored reaches nobody before the first stream is opened; a recording cannot tell that it was.
            stored = kind in STORED_TYPES or (kind not in DELTA_TYPES and (not self.watched or world.chance(0.7)))
        document = {"type": kind, "run_id": run or self.run or "run_none"} | (document or {})
        identity = None
        if stored:
            self.sequence += 1 if world.quiet else world.rng.choice([1, 1, 1, 2, 5])
            identity = f"evt_{self.name}_{self.sequence}" if world.long_ids else str(self.sequence)
            document = {
                "id": identity,
                "sequence": self.sequence,
                "workspace_id": f"ws_{self.name}",
                "session_id": self.name,
                "created_at": world.instant(),
                "content": {},
                "data": {},
            } | document
        message = Message(kind, identity, document, world.now)
        if stored:
            self.log.append(message)
        elif kind in DELTA_TYPES:
            self.recent.append(message)
        if queue:
            for connection in self.connections:
                if connection.answered and (connection.deltas or kind not in DELTA_TYPES):
                    connection.queue.append(message)
        return message

    # What an agent does.

    def start(self, *, stored=None):
        self.runs += 1
        self.run = f"run_{self.name}_{self.runs}"
        return self.emit("run.started", stored=stored)

    def end(self, kind=None, *, stored=None):
        if self.world.quiet:
            for call in list(self.calls):
                self.outcome(call)
        run, calls, self.calls = self.run, self.calls, {}
        message = self.emit(kind or self.world.rng.choice(ENDS), stored=stored)
        if message.kind == "run.cancelled" and stored is None:
            for call in calls:
                if self.world.chance(0.5):
                    self.emit(self.world.rng.choice(OUTCOMES), run=run, document={"data": {"tool_call_id": call}})
        self.ended.append((run, self.world.now))
        self.run = None
        if self.world.chance(0.7):
            self.emit("session.status_idle", run=run)
        return message

    def speak(self, text=None):
        text = self.world.text() if text is None else text
        return self.emit(self.world.rng.choice(DELTA_TYPES), document={"delta": {"text": text}})

    def say(self, kind=None, *, stored=None):
        blocks = [{"type": "text", "text": self.world.text()} for _ in range(self.world.rng.randrange(3))]
        return self.emit(kind or self.world.rng.choice(PLAIN_TYPES), document={"content": blocks}, stored=stored)

    def call(self, kind=None, *, stored=None):
        call = f"call_{self.name}_{self.world.number()}"
        kind = kind or self.world.rng.choice(["tool.started", "agent.custom_tool_use", "both"])
        self.calls[call] = "fetch" if kind == "tool.started" else "app"
        for name in ["tool.started", "agent.custom_tool_use"] if kind == "both" else [kind]:
            self.tool(name, call, stored=stored)
        return call

    def outcome(self, call, kind=None, *, stored=None):
        name = self.calls[call]
        message = self.tool(kind or self.world.rng.choice(OUTCOMES), call, stored=stored)
        del self.calls[call]
        return message if name else None

    def tool(self, kind, call, *, stored=None, name=None):
        about = {"tool_call_id": call, "name": name or self.calls[call]}
        if kind == "tool.started" or self.world.chance(0.5):
            parts = {"content": about | {"input": {"q": 1}}, "data": about}
        else:
            parts = self.world.rng.choice([{"content": about}, {"content": [], "data": {"tool_call_id": call}}])
        return self.emit(kind, document=parts, stored=stored)

    def stand_by(self):
        """Something happens that is of no run, even where it names one."""
        kind = self.world.rng.choice(["session.error", "sandbox.recreated"])
        self.emit(kind, run=self.ended[-1][0] if self.ended else None)

    def repeat(self):
        """A delta comes again to somebody who has reconnected."""
        having = [connection for connection in self.connections if connection.old]
        if having:
            connection = self.world.rng.choice(having)
            connection.queue.append(self.world.rng.choice(connection.old))

    def act(self):
        """One step of an agent's work."""
        world = self.world
        if self.run is None:
            self.start() if world.chance(0.6) else self.stand_by()
            return
        match world.rng.choice(["speak", "speak", "speak", "say", "call", "outcome", "end", "error"]):
            case "speak":
                self.speak()
            case "say":
                self.say()
            case "call":
                self.call()
            case "outcome" if self.calls:
                self.outcome(world.rng.choice(list(self.calls)))
            case "end" if not self.calls or not world.quiet or world.chance(0.5):
                self.end()
            case "error":
                self.emit("session.error")


class Client:
    """One client, which may read several sessions."""

    def __init__(self, world, address, key):
        self.world, self.address, self.key = world, address, key
        self.other_key = f"{key}_too"
        self.at = {}
        """Of each session its stream, or the cursor it goes on with."""
        self.owing = []
        """Sessions to which it has to reconnect."""
        self.twins = []
        """Other programs with the same key and address."""

    def open(self, session, cursor=..., *, deltas=None, answer=True):
        """Ask for a stream; `cursor` is the right one unless another is given."""
        world = self.world
        if cursor is ...:
            held = self.at.get(session)
            cursor = held.last if isinstance(held, Connection) else held
        deltas = world.chance(0.7) if deltas is None else deltas
        query = "?event_deltas=true" if deltas else world.rng.choice(["", "?event_deltas=false"])
        headers = () if cursor is None else (("last-event-id", cursor),)
        number = world.ask(self, "GET", f"{session.path}/events/stream{query}", headers)
        connection = Connection(number, cursor, deltas, world.rng.choice(["\n", "\n", "\r\n", "\r"]))
        self.at[session] = connection
        if answer:
            self.answer(session, connection)
        return connection

    def answer(self, session, connection, replay=None):
        """The service replays what is behind the cursor, or what is given, and goes on live."""
        world = self.world
        world.tick()
        world.respond(connection.number, 200, STREAM_HEAD)
        connection.answered, connection.heard_ns = True, world.now
        known = [message.id for message in session.log]
        after = known.index(connection.cursor) + 1 if connection.cursor in known else 0
        connection.queue.extend(session.log[after:] if replay is None else replay)
        if connection.deltas and session.watched:
            connection.old.extend(session.recent)
            if world.chance(0.3):
                connection.queue.extend(session.recent)
        session.watched = True
        session.connections.append(connection)

    def close(self, session, ending=None):
        """The stream ends, by whomever."""
        world = self.world
        connection = self.at[session]
        ending = ending or world.rng.choice(
            [Ending.COMPLETE, Ending.SERVICE_CLOSED, Ending.CLIENT_CLOSED, Ending.SERVICE_RESET, Ending.TIMED_OUT]
        )
        if ending is Ending.CLIENT_CLOSED or ending is Ending.TIMED_OUT:
            if world.chance(0.5):
                world.pump(connection, whole=False)
        else:
            world.finish_message(connection)
        world.tick()
        world.end(connection.number, ending)
        session.connections.remove(connection)
        self.at[session] = connection.last
        if connection.resync:
            self.owing.append(session)
        if ending is Ending.CLIENT_CLOSED and world.chance(0.3):
            # It had left before it could read all that was under way.
            late = [identity for when, identity in connection.received if when >= world.now - SECOND // 2]
            before = [connection.cursor, *(identity for _, identity in connection.received)]
            if late and not connection.resync:
                self.at[session] = before[before.index(late[0]) - 1]
        return connection


class World:
    """All of it.  A quiet one leaves out what gives notes."""

    def __init__(self, rng, *, quiet=False):
        self.rng, self.quiet = rng, quiet
        self.now = 1
        self.seen = []
        self.exchange = 0
        self.numbers = 0
        self.long_ids = quiet or rng.random() < 0.8
        self.sessions = []
        self.clients = []

    def chance(self, probability):
        return self.rng.random() < probability

    def number(self):
        self.numbers += 1
        return self.numbers

    def text(self):
        return self.rng.choice(["", "Hi", "ä\u2028😀", "a\nb", '"}', "\\u0000"])

    def instant(self):
        """An ISO 8601 time that never goes back."""
        seconds, micros = divmod(self.now // 1000, 1_000_000)
        return f"2025-01-01T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}" + (
            self.rng.choice(["Z", "+00:00"])
        )

    def session(self, first=1):
        self.sessions.append(Session(self, f"own_{len(self.sessions)}", first))
        return self.sessions[-1]

    def stranger(self):
        """A client that does nothing by chance."""
        return Client(self, "10.0.0.9", f"key_of_stranger_{self.number()}")

    def twin(self, client):
        """Another program with the key and the address of a client."""
        twin = Client(self, client.address, client.key)
        client.twins, twin.twins = [twin], [client]
        self.clients.append(twin)
        return twin

    def client(self, address=None):
        key = f"key_{len(self.clients)}"
        self.clients.append(Client(self, address or f"10.0.0.{self.rng.randrange(3)}", key))
        return self.clients[-1]

    # What the proxy notes.

    def note(self, seen):
        self.seen.append(seen)

    def tick(self, ns=None):
        """Time passes; every stream gets its bytes in time."""
        step = self.rng.choice([APART, 1000, 10**6, 3 * 10**7, 4 * 10**8]) if ns is None else ns
        while step > 0:
            self.now += min(step, SECOND // 2)
            step -= SECOND // 2
            self.keep_up()

    def keep_up(self):
        for session in self.sessions:
            for connection in session.connections:
                late = connection.queue and connection.queue[0].emitted_ns < self.now - SECOND // 2
                if late or (connection.current and self.now - connection.heard_ns > SECOND // 2):
                    self.flush(connection)
                elif self.now - connection.heard_ns > 10 * SECOND:
                    self.keep_alive(connection)

    def ask(self, client, method, target, headers=(), key=True):
        self.tick()
        self.exchange += 1
        self.now += APART
        credential = (("Authorization", f"Bearer {client.key}"),) if key else ()
        heads = (*credential, *headers)
        self.note(
            RequestStarted(
                self.exchange, self.now, client.address, method, "http", "service.test", target, "HTTP/1.1", heads
            )
        )
        number = self.exchange
        if self.chance(0.8):
            self.tick()
            self.now += APART
            self.note(RequestEnded(number, self.now))
        return number

    def respond(self, number, status, headers):
        self.now += APART
        self.note(ResponseStarted(number, self.now, status, "", "HTTP/1.1", tuple(headers)))

    def end(self, number, ending=Ending.COMPLETE):
        self.now += APART
        self.note(ExchangeEnded(number, self.now, ending))

    def body(self, number, start, data):
        """Bytes arrive in any pieces."""
        cuts = sorted({self.rng.randrange(1, len(data)) for _ in range(self.rng.randrange(3))} if len(data) > 1 else ())
        begin = 0
        for cut in [*cuts, len(data)]:
            self.now += APART
            piece = data[begin:cut]
            self.note(BytesArrived(number, Side.RESPONSE, start + begin, piece, (start + cut,), (self.now,)))
            begin = cut
        return start + len(data)

    # How messages become bytes.

    def spell(self, message, line_end):
        items = list(message.document.items())
        self.rng.shuffle(items)
        text = json.dumps(dict(items), ensure_ascii=self.chance(0.5), separators=self.rng.choice([None, (",", ":")]))
        lines = [f"event: {message.kind}"] + ([] if message.id is None else [f"id: {message.id}"]) + [f"data: {text}"]
        if self.chance(0.3):
            self.rng.shuffle(lines)
        if self.chance(0.1):
            lines.insert(1, ": inside")
        if self.chance(0.05):
            lines.insert(1, "retry: 1000")
        return (line_end.join([*lines, "", ""])).encode()

    def pump(self, connection, *, whole=None):
        """Some bytes of what is queued are sent."""
        if not connection.rest:
            if not connection.queue:
                return
            connection.current = connection.queue.popleft()
            connection.rest = self.spell(connection.current, connection.line_end)
        whole = self.chance(0.7) if whole is None else whole
        count = len(connection.rest) if whole else self.rng.randrange(1, len(connection.rest) + 1)
        data, connection.rest = connection.rest[:count], connection.rest[count:]
        connection.sent = self.body(connection.number, connection.sent, data)
        connection.heard_ns = self.now
        # A line that ends with CR has ended, whether or not an LF follows.
        ended = not connection.rest or (connection.rest == b"\n" and connection.line_end == "\r\n")
        if ended and connection.current is not None:
            message, connection.current = connection.current, None
            if message.id is not None and message.kind not in DELTA_TYPES:
                connection.received.append((self.now, message.id))
            connection.resync |= message.kind == "stream.resync"

    def finish_message(self, connection):
        while connection.rest:
            self.pump(connection, whole=True)

    def flush(self, connection):
        while connection.rest or connection.queue:
            self.pump(connection, whole=True)

    def keep_alive(self, connection):
        self.finish_message(connection)
        blank = connection.line_end if not self.quiet and self.chance(0.3) else ""
        data = f": keep-alive{connection.line_end}{blank}".encode()
        connection.sent = self.body(connection.number, connection.sent, data)
        connection.heard_ns = self.now

    # Requests that are no streams.

    def exchange_json(self, client, method, target, status, document, headers=(), more=(), key=True):
        """A request and its whole answer."""
        number = self.ask(client, method, target, headers, key)
        self.tick()
        self.respond(number, status, (*JSON_HEAD, *more))
        raw = json.dumps(document).encode()
        self.tick()
        if raw:
            self.body(number, 0, raw)
        self.tick()
        self.end(number)
        return number

    def error(self, client, method, target, code, headers=(), key=True, message="No.", **fields):
        """An error that the specification gives, with what belongs to it."""
        more = ()
        if code == "RATE_LIMITED":
            seconds = fields.pop("seconds", self.rng.choice([0, 1, 2]))
            limit = self.rng.choice([30, 60, 120])
            fields["details"] = {"limit": limit, "window_seconds": 60, "retry_after": seconds}
            more = (("Retry-After", str(seconds)),)
        elif code in {"invalid_request", "tool_result_invalid", "tool_input_invalid"} and self.chance(0.5):
            fields["details"] = [{"path": "a.b", "reason": "Wrong."}]
        error = {"code": code, "message": message, "request_id": f"req_own_{self.number()}"} | fields
        return self.exchange_json(client, method, target, ERROR_CODES[code], {"error": error}, headers, more, key)

    def busy(self, client, session, run, target=None):
        path = f"{session.path}/runs/{run}"
        return self.error(
            client,
            "POST",
            target or f"{session.path}/runs",
            "SESSION_BUSY",
            message=f"Session {session.name} is busy: run {run} is waiting_for_input.",
            active_run_id=run,
            active_run_status="waiting_for_input",
            recovery=[f"POST {path}/cancel", f"or resume it: {path}/resume"],
        )


# What goes on: each step is one thing that somebody does.


def step(world):
    """Somebody does something that the specification allows."""
    session, client = world.rng.choice(world.sessions), world.rng.choice(world.clients)
    held = client.at.get(session)
    steps = ["act"] * 4 + ["pump"] * 3 + ["stream"] * 2 + ["other", "resync", "switch", "repeat"]
    match world.rng.choice(steps):
        case "act":
            session.act()
        case "pump" if session.connections:
            world.pump(world.rng.choice(session.connections))
        case "stream" if isinstance(held, Connection):
            client.close(session)
        case "stream":
            open_again(world, client, session)
        case "other":
            other(world, client, session)
        case "resync" if isinstance(held, Connection) and world.chance(0.3):
            resync(world, client, session, held)
        case "repeat":
            session.repeat()
        case "switch" if not client.twins and not any(isinstance(at, Connection) for at in client.at.values()):
            # It has two keys, or two addresses.
            client.key, client.other_key = client.other_key, client.key
    follow_resyncs(world)
    world.tick()
    if world.chance(0.03):
        world.tick(SECOND)
        follow_resyncs(world)
        world.tick(SECOND)
        world.tick(world.rng.randrange(70) * SECOND)


def open_again(world, client, session):
    """A client opens a stream, with the right cursor; at times not at the first try."""
    first = session not in client.at
    if first and any(session in twin.at and not isinstance(twin.at[session], Connection) for twin in client.twins):
        # It would look like the other one, which had to go on where it stood.
        return
    alone = first and not any(session in twin.at for twin in client.twins)
    cursor = client.at.get(session)
    target = f"{session.path}/events/stream"
    headers = () if cursor is None else (("Last-Event-ID", cursor),)
    match world.rng.randrange(10):
        case 0:
            world.error(
                client, "GET", target, world.rng.choice(["SANDBOX_PROVISION_FAILED", "permission_denied"]), headers
            )
        case 1:
            number = world.ask(client, "GET", target, headers)
            world.tick()
            world.end(number, Ending.SERVICE_UNREACHABLE)
        case 2 if alone:
            # It has a cursor from long ago, which the service does not know any more.
            world.error(client, "GET", target, "invalid_cursor", (("Last-Event-ID", f"gone_{world.number()}"),))
            client.open(session, None)
            return
        case 3 if not world.quiet and alone and not session.connections and session.log:
            # Another client had read it before, past the proxy.
            client.open(session, world.rng.choice(session.log).id)
            return
    client.open(session)


def resync(world, client, session, held):
    """The service tells everybody, or one client, to reconnect."""
    if world.chance(0.3):
        session.emit("stream.resync", run="run_none")
    else:
        held.queue.append(Message("stream.resync", None, {"type": "stream.resync"}, world.now))


def follow_resyncs(world):
    """Clients that were told to reconnect do so."""
    for client in world.clients:
        while client.owing:
            session = client.owing.pop()
            if not isinstance(client.at[session], Connection):
                client.open(session)
        for session, held in list(client.at.items()):
            if isinstance(held, Connection) and held.resync:
                held.resync = False
                if world.chance(0.5):
                    ending = world.rng.choice([Ending.CLIENT_CLOSED, Ending.COMPLETE])
                    held.queue.clear()
                    world.finish_message(held)
                    client.close(session, ending)
                    client.open(session, held.last)
                else:
                    client.open(session, held.last)
                    held.queue.clear()
                    world.finish_message(held)
                    world.tick()
                    world.end(held.number, Ending.CLIENT_CLOSED)
                    session.connections.remove(held)


def other(world, client, session):
    """A request that is no stream."""
    match world.rng.choice(["any", "good", "busy", "cancel", "resume", "rate"]):
        case "any":
            code = world.rng.choice(sorted(set(ERROR_CODES) - {"SESSION_BUSY", "RATE_LIMITED"}))
            world.error(client, "POST", f"/v1/sessions/things/{world.number()}?limit=5", code)
        case "good":
            world.exchange_json(client, "GET", f"/v1/sessions/{session.name}", 200, {"id": session.name})
        case "busy" if session.run is not None:
            target = world.rng.choice([None, "/v1/sessions", f"{session.path}/runs"])
            world.busy(client, session, session.run, target)
        case "cancel":
            cancel(world, client, session)
        case "resume" if session.run is not None and session.calls:
            resume(world, client, session)
        case "rate":
            target = f"/v1/sessions/others/{world.number()}"
            seconds = world.rng.choice([0, 1, 2])
            world.error(client, "POST", target, "RATE_LIMITED", seconds=seconds)
            world.tick(seconds * SECOND)
            world.exchange_json(client, "POST", target, 201, {"id": "x"})


def cancel(world, client, session):
    """An active run is cancelled; one that has ended cannot be."""
    if session.run is not None:
        run = session.run
        if not world.quiet and world.chance(0.5):
            session.end("run.cancelled")
        world.exchange_json(client, "POST", f"{session.path}/runs/{run}/cancel", 202, {})
        if session.run == run:
            session.end("run.cancelled")
    elif session.ended and not world.quiet:
        world.error(client, "POST", f"{session.path}/runs/{session.ended[-1][0]}/cancel", "RUN_NOT_CANCELLABLE")


def resume(world, client, session):
    """A tool result is returned, at times not at the first try."""
    target = f"{session.path}/runs/{session.run}/resume"
    key = (("Idempotency-Key", f"k{world.number()}"),)
    call = next(iter(session.calls))
    match world.rng.randrange(4):
        case 0:
            world.error(client, "POST", target, "runtime_resume_unavailable", key)
            world.exchange_json(client, "POST", target, 200, {}, key)
        case 1:
            world.error(client, "POST", target, "tool_result_invalid", key)
            world.error(client, "POST", target, "tool_result_invalid", key)
            world.exchange_json(client, "POST", target, 202, {}, key)
        case _:
            world.exchange_json(client, "POST", target, 200, {}, key)
    if call in session.calls:
        session.outcome(call)


def begin(rng, *, quiet=False):
    """A world with some sessions and clients, in which nothing has happened."""
    world = World(rng, quiet=quiet)
    for _ in range(rng.randrange(1, 4)):
        world.session(1 if quiet or rng.random() < 0.7 else rng.randrange(100))
    for _ in range(rng.randrange(1, 4)):
        world.client()
    if world.chance(0.3):
        world.twin(world.rng.choice(world.clients))
    return world


def settle(world):
    """Everything that is under way comes, and some streams are closed."""
    world.tick(SECOND)
    follow_resyncs(world)
    for client in world.clients:
        for session, held in list(client.at.items()):
            if isinstance(held, Connection) and held.answered and world.chance(0.5):
                world.flush(held)
                if not held.resync:
                    client.close(session)
    world.tick(SECOND)
    follow_resyncs(world)


assert set(PLAIN_TYPES) | set(DELTA_TYPES) | set(OUTCOMES) | set(ENDS) < set(EVENT_TYPES)
