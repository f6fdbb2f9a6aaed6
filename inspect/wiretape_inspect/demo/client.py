"""The client of the demo: starts a run, reads its stream to the end over a lost connection, asks a wrong question."""

from dataclasses import dataclass
from hashlib import sha256

import aiohttp
import orjson

from wiretape.contract import CURSOR_HEADER, DELTA_TYPES, EVENT_DELTAS, RUN_STARTED, STATUS_IDLE, STREAM
from wiretape.safe_text import printable
from wiretape.sse import Frame, Parser
from wiretape_inspect.demo.children import DemoError

AGENT = "wiretape-demo"
"""Its User-Agent, by which the recording of a demo is known."""
KEY = "wiretape-key"
"""The one that `wiretape serve` takes when it is told no other."""
_SESSIONS = "/v1/sessions"
_RUNS = "/v1/sessions/{session_id}/runs"
_STREAM = f"{STREAM.path}?{EVENT_DELTAS}=true"
_MISSING = STREAM.path.format(session_id="ses_missing")
_MOST_STREAMS = 5


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
        self._session_id = ""
        self._cursor: str | None = None
        self._ended = False

    async def visit(self) -> None:
        """Ask everything.  Raises aiohttp.ClientError when the service cannot be reached, and DemoError."""
        headers = {"Authorization": f"Bearer {KEY}", "User-Agent": AGENT}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=20)) as session:
            created = await self._ask(session, "POST", _SESSIONS, 201)
            self._session_id = orjson.loads(created.body)["id"]
            await self._read(session, begin=True)
            for _ in range(_MOST_STREAMS):
                if not self._ended:
                    await self._read(session)
            await self._ask(session, "GET", _MISSING, 404)

    async def _run(self, session: aiohttp.ClientSession, status: int) -> None:
        await self._ask(session, "POST", self._target(_RUNS), status, {"input": "When does the library close?"})

    async def _ask(
        self, session: aiohttp.ClientSession, method: str, target: str, status: int, body: object = None
    ) -> Answer:
        answer = self._new(f"{method} {target}")
        async with session.request(method, f"{self._url}{target}", json=body) as response:
            answer.status, answer.body = response.status, await response.read()
        return _as_expected(answer, status)

    async def _read(self, session: aiohttp.ClientSession, *, begin: bool = False) -> None:
        """Read the stream from the cursor on, until the session is idle or the connection is lost.

        With `begin`, start the run once the stream is open, so that none of its deltas is missed.
        """
        target = self._target(_STREAM)
        answer, parser = self._new(f"GET {target}"), Parser()
        headers = {CURSOR_HEADER: self._cursor} if self._cursor is not None else {}
        async with session.get(f"{self._url}{target}", headers=headers) as response:
            answer.status = response.status
            _as_expected(answer, 200)
            if begin:
                await self._run(session, 201)
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
        if kind == RUN_STARTED:
            # A second run while the first is active: the service is busy.
            await self._run(session, 409)
        self._ended = kind == STATUS_IDLE

    def _target(self, path: str) -> str:
        return path.format(session_id=self._session_id)

    def _new(self, request: str) -> Answer:
        answer = Answer(request)
        self.answers.append(answer)
        return answer


def _as_expected(answer: Answer, status: int) -> Answer:
    """The answer.  Raises DemoError where it has another status."""
    if answer.status != status:
        raise DemoError(f"{printable(answer.request)} was answered with status {answer.status} instead of {status}.")
    return answer
