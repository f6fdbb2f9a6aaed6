"""Sessions built by hand, served on a real socket in the test's event loop, and a client that sees every byte."""

import asyncio
import contextlib
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from service_contracts import SERVICE

from wiretape.observations import Ending
from wiretape.recording import Writer, open_recording
from wiretape_replay.access.contract_errors import count_request_ids
from wiretape_replay.channel.channel_log import ChannelLog, EntryKind, LogEntry, PlayableChannel, RecordedChannels
from wiretape_replay.channel.channel_routing import ChannelFinder, ChannelRouter
from wiretape_replay.channel.channel_streams import ChannelStreams
from wiretape_replay.channel.playhead_clock import Playheads
from wiretape_replay.control.control_api import ControlApi
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.faults.fault_actions import FaultActions
from wiretape_replay.faults.fault_schedule import FaultSchedule
from wiretape_replay.faults.fault_script import FaultScript
from wiretape_replay.http_server.aiohttp_server import HttpServer
from wiretape_replay.http_server.http_messages import BodyFraming, ResponseHead
from wiretape_replay.recording_server import replay_control
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer

MS = 1_000_000
TOKEN = "let-me-in"
HEAD = ResponseHead(
    200, "OK", (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")), BodyFraming.CHUNKED
)
_PATIENCE_S = 45


def event(number: int, at_ms: float, type_: str = "tool.started", **more: object) -> LogEntry:
    """A durable event with the id `e1`, the sequence 1 and so on."""
    document = json.dumps({"id": f"e{number}", "sequence": number, "type": type_})
    data = f"event: {type_}\nid: e{number}\ndata: {document}\n\n".encode()
    fields = {"id": f"e{number}", "type": type_, "sequence": number, "source": (7, number), **more}
    return LogEntry(EntryKind.DURABLE, round(at_ms * MS), data, **fields)


def delta(text: str, at_ms: float) -> LogEntry:
    data = f'event: message.delta\ndata: {{"type":"message.delta","delta":{{"text":"{text}"}}}}\n\n'.encode()
    return LogEntry(EntryKind.EPHEMERAL, round(at_ms * MS), data, type="message.delta", is_optional=True)


def comment(at_ms: float, data: bytes = b": note\n\n") -> LogEntry:
    return LogEntry(EntryKind.EPHEMERAL, round(at_ms * MS), data)


def ending(how: Ending, at_ms: float) -> LogEntry:
    return LogEntry(EntryKind.ENDING, round(at_ms * MS), ending=how)


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until a condition holds."""
    async with asyncio.timeout(_PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.head = b""

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def begun(self) -> bytes:
        """The head of the response."""
        async with asyncio.timeout(_PATIENCE_S):
            self.head = await self._reader.readuntil(b"\r\n\r\n")
        return self.head

    async def chunk(self) -> bytes:
        """The next HTTP chunk; empty for the last."""
        async with asyncio.timeout(_PATIENCE_S):
            size = int(await self._reader.readline(), 16)
            return (await self._reader.readexactly(size + 2))[:-2]

    async def chunks(self, count: int) -> list[bytes]:
        return [await self.chunk() for _ in range(count)]

    async def rest(self) -> tuple[bytes, str]:
        """Everything until the connection ends, and whether it was `closed` or `reset`."""
        data = bytearray()
        async with asyncio.timeout(_PATIENCE_S):
            try:
                while piece := await self._reader.read(65536):
                    data += piece
            except ConnectionResetError:
                return bytes(data), "reset"
        return bytes(data), "closed"

    async def body(self) -> bytes:
        """The body of a response with a length."""
        length = re.search(rb"content-length: (\d+)", self.head or await self.begun(), re.IGNORECASE)
        assert length, self.head
        async with asyncio.timeout(_PATIENCE_S):
            return await self._reader.readexactly(int(length[1]))

    def leave(self) -> None:
        self._writer.close()


class Stage:
    """A server that serves the sessions."""

    def __init__(self, url: str, player: ChannelRouter, others: VerbatimPlayer, control: PlayheadControl) -> None:
        self.url = url
        self.player = player
        self.others = others
        self.control = control
        self.host = url.removeprefix("http://")
        self._clients: list[Client] = []

    def clock(self, session_id: str = "s1"):
        return self.player.streams.playheads.latest(self.player.channels[session_id].log)

    async def connect(self) -> Client:
        where = urlsplit(self.url)
        client = Client(*await asyncio.open_connection(where.hostname, where.port))
        self._clients.append(client)
        return client

    async def ask(self, target: str, headers: str = "", *, method: str = "GET", version: str = "HTTP/1.1") -> Client:
        client = await self.connect()
        client.send(f"{method} {target} {version}\r\nHost: {self.host}\r\n{headers}\r\n".encode("latin-1"))
        return client

    async def stream(
        self, session_id: str = "s1", *, cursor: str | None = None, deltas: bool = False, key: str = "k", **how: str
    ) -> Client:
        """A stream whose head has arrived, so that it is connected."""
        headers = f"Authorization: Bearer {key}\r\n" + (f"Last-Event-ID: {cursor}\r\n" if cursor is not None else "")
        query = "?event_deltas=true" if deltas else ""
        client = await self.ask(f"/v1/sessions/{session_id}/events/stream{query}", headers, **how)
        await client.begun()
        return client

    async def ask_control(self, name: str, body: object = None, *, method: str | None = None) -> tuple[int, dict]:
        """Send a request to the control API; return the status and the document."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        headers = f"X-Wiretape-Token: {TOKEN}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n"
        client = await self.ask(f"/_wiretape/{name}", headers, method=method)
        client.send(data)
        head = await client.begun()
        return int(head.split()[1]), json.loads(await client.body())

    def leave(self) -> None:
        for client in self._clients:
            client.leave()


@contextlib.asynccontextmanager
async def playing(
    folder: Path,
    entries: Iterable[LogEntry] | dict[str, Iterable[LogEntry]],
    *,
    speed: float = math.inf,
    paused: bool = False,
    own: bool = False,
    keep_alive_s: float = 15,
    known: Iterable[str] = (),
) -> AsyncIterator[Stage]:
    """Serve sessions (a single one is `s1`) without recorded responses."""
    logs = entries if isinstance(entries, dict) else {"s1": entries}
    sessions = {name: PlayableChannel(ChannelLog(name, list(log), "session"), HEAD) for name, log in logs.items()}
    path = folder / "nothing.db"
    Writer.create(path, upstream="http://service.test").close(1)
    playheads = Playheads(speed=speed, paused=paused, per_connection=own, keep_alive_s=keep_alive_s)
    with open_recording(path) as recording:
        others = VerbatimPlayer(recording, math.inf)
        streams = ChannelStreams(playheads, count_request_ids(), SERVICE)
        by_path = {("agent-sessions", name): session for name, session in sessions.items()}
        finder = ChannelFinder(RecordedChannels(sessions, by_path), others.queues, SERVICE)
        player = ChannelRouter(finder, others, streams, known=frozenset([*sessions, *known]))
        faults = FaultActions(FaultSchedule(FaultScript(), SERVICE), str)
        control = replay_control(playheads, others, player, SERVICE, faults)
        server = HttpServer(player.respond, print, control=ControlApi(control, TOKEN).respond)
        stage = Stage(await server.start("127.0.0.1", 0), player, others, control)
        try:
            yield stage
        finally:
            stage.leave()
            await server.stop()
            playheads.stop()
