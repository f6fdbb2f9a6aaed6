"""The client of the demo: starts a run, reads its stream to the end over a lost connection, asks a wrong question."""

from dataclasses import dataclass
from hashlib import sha256

import aiohttp
import orjson

from wiretape.contract import CURSOR_HEADER, DELTA_TYPES, EVENT_DELTAS, STREAM
from wiretape.sse import Frame, Parser
from wiretape_inspect.demo.service import SESSION

KEY = "demo-key-that-no-recording-may-hold"
_RUNS = f"/v1/sessions/{SESSION}/runs"
_STREAM = f"{STREAM.path.format(session_id=SESSION)}?{EVENT_DELTAS}=true"
_MISSING = STREAM.path.format(session_id=f"{SESSION}-missing")
_LAST = "session.status_idle"


@dataclass(slots=True)
class Answer:
    """A response as the client read it."""

    request: str
    status: int = 0
    body: bytes = b""
    cut: bool = False
    """Whether the connection was lost before the response was whole."""

    @property
    def digest(self) -> str:
        """SHA-256 of the body."""
        return sha256(self.body).hexdigest()


class Client:
    """One visit to the service at `url`.  What was answered, in the order of asking, is in `answers`."""

    def __init__(self, url: str) -> None:
        self.answers: list[Answer] = []
        self.events = 0
        self._url = url
        self._cursor: str | None = None
        self._ended = False

    async def visit(self) -> None:
        """Ask everything.  Raises aiohttp.ClientError when the service cannot be reached."""
        timeout = aiohttp.ClientTimeout(total=20)
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}, timeout=timeout) as session:
            await self._post(session)
            while not self._ended and len(self.answers) < 10:
                await self._read(session)
            await self._ask(session, _MISSING)

    async def _post(self, session: aiohttp.ClientSession) -> None:
        answer = self._new(f"POST {_RUNS}")
        async with session.post(f"{self._url}{_RUNS}", json={"input": "When does the library close?"}) as response:
            answer.status, answer.body = response.status, await response.read()

    async def _ask(self, session: aiohttp.ClientSession, target: str) -> None:
        answer = self._new(f"GET {target}")
        async with session.get(f"{self._url}{target}") as response:
            answer.status, answer.body = response.status, await response.read()

    async def _read(self, session: aiohttp.ClientSession) -> None:
        """Read the stream from the cursor on, until the session is idle or the connection is lost."""
        answer, parser = self._new(f"GET {_STREAM}"), Parser()
        headers = {CURSOR_HEADER: self._cursor} if self._cursor is not None else {}
        async with session.get(f"{self._url}{_STREAM}", headers=headers) as response:
            answer.status = response.status
            try:
                async for data in response.content.iter_any():
                    answer.body += data
                    for frame in parser.feed(data):
                        await self._take(frame, session)
                    if self._ended:
                        break
            except aiohttp.ClientPayloadError:
                answer.cut = True
            response.close()

    async def _take(self, frame: Frame, session: aiohttp.ClientSession) -> None:
        if not frame.dispatched:
            return
        self.events += 1
        kind = orjson.loads(frame.data)["type"]
        if frame.id is not None and kind not in DELTA_TYPES:
            self._cursor = frame.id
        if kind == "reasoning.message":
            # A second run while the first is active: the service is busy.
            await self._post(session)
        self._ended = kind == _LAST

    def _new(self, request: str) -> Answer:
        answer = Answer(request)
        self.answers.append(answer)
        return answer
