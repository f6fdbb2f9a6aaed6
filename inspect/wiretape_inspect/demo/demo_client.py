"""The client of the demo: starts a run, reads its stream across a lost connection, and makes one bad request."""

from dataclasses import dataclass
from hashlib import sha256

import aiohttp
import orjson

from wiretape.contract import CURSOR_HEADER, DELTA_TYPES, EVENT_DELTAS, RUN_STARTED, STATUS_IDLE, STREAM
from wiretape.safe_text import printable
from wiretape.sse import Frame, Parser
from wiretape_inspect.demo.child_process import DemoError

USER_AGENT = "wiretape-demo"
"""Identifies the recording of a demo."""
KEY = "wiretape-key"
"""The default key of `wiretape serve`."""
_SESSIONS = "/v1/sessions"
_RUNS = "/v1/sessions/{session_id}/runs"
_STREAM = f"{STREAM.path}?{EVENT_DELTAS}=true"
_UNKNOWN_SESSION = STREAM.path.format(session_id="ses_missing")
_MAX_RECONNECTS = 5


@dataclass(slots=True)
class ReceivedResponse:
    """A response as the client read it."""

    request: str
    status: int = 0
    body: bytes = b""
    is_truncated: bool = False
    """Whether the connection was lost before the response was complete."""

    @property
    def digest(self) -> str:
        """SHA-256 of the body."""
        return sha256(self.body).hexdigest()


class DemoClient:
    """One use of the service at `url`; `responses` are in the order of the requests."""

    def __init__(self, url: str) -> None:
        self.responses: list[ReceivedResponse] = []
        self.events = 0
        self._url = url
        self._session_id = ""
        self._cursor: str | None = None
        self._is_idle = False

    async def run(self) -> None:
        """Make all requests.  Raises aiohttp.ClientError if the service cannot be reached, and DemoError."""
        headers = {"Authorization": f"Bearer {KEY}", "User-Agent": USER_AGENT}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=20)) as http:
            created = await self._request(http, "POST", _SESSIONS, 201)
            self._session_id = orjson.loads(created.body)["id"]
            await self._read_stream(http, create_run=True)
            for _ in range(_MAX_RECONNECTS):
                if not self._is_idle:
                    await self._read_stream(http)
            await self._request(http, "GET", _UNKNOWN_SESSION, 404)

    async def _create_run(self, http: aiohttp.ClientSession, status: int) -> None:
        await self._request(http, "POST", self._target(_RUNS), status, {"input": "When does the library close?"})

    async def _request(
        self, http: aiohttp.ClientSession, method: str, target: str, status: int, body: object = None
    ) -> ReceivedResponse:
        response = self._new_response(f"{method} {target}")
        async with http.request(method, f"{self._url}{target}", json=body) as received:
            response.status, response.body = received.status, await received.read()
        _check_status(response, status)
        return response

    async def _read_stream(self, http: aiohttp.ClientSession, *, create_run: bool = False) -> None:
        """Read the stream from the cursor until the session is idle or the connection is lost.

        With `create_run`, create the run once the stream is open, so that none of its deltas is missed.
        """
        target = self._target(_STREAM)
        response, parser = self._new_response(f"GET {target}"), Parser()
        headers = {CURSOR_HEADER: self._cursor} if self._cursor is not None else {}
        async with http.get(f"{self._url}{target}", headers=headers) as received:
            response.status = received.status
            _check_status(response, 200)
            if create_run:
                await self._create_run(http, 201)
            try:
                async for data in received.content.iter_any():
                    response.body += data
                    for frame in parser.feed(data):
                        await self._handle(frame, http)
                    if self._is_idle:
                        break
            except aiohttp.ClientPayloadError:
                response.is_truncated = True
            received.close()

    async def _handle(self, frame: Frame, http: aiohttp.ClientSession) -> None:
        if not frame.is_dispatched:
            return
        self.events += 1
        event_type = orjson.loads(frame.data)["type"]
        if frame.id is not None and event_type not in DELTA_TYPES:
            self._cursor = frame.id
        if event_type == RUN_STARTED:
            # A second run while the first is active: the service is busy.
            await self._create_run(http, 409)
        self._is_idle = event_type == STATUS_IDLE

    def _target(self, path: str) -> str:
        return path.format(session_id=self._session_id)

    def _new_response(self, request: str) -> ReceivedResponse:
        response = ReceivedResponse(request)
        self.responses.append(response)
        return response


def _check_status(response: ReceivedResponse, status: int) -> None:
    if response.status != status:
        raise DemoError(f"{printable(response.request)} got status {response.status}, expected {status}.")
