"""The replay that the page drives: asked on its behalf, with a token that the page never sees."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

from wiretape.addresses import is_loopback_host
from wiretape.control_protocol import ROOT, TOKEN_HEADER, no_replay_error
from wiretape.errors import InputError
from wiretape.safe_text import shorten

NAMES: Mapping[str, frozenset[str]] = {
    "state": frozenset({"GET"}),
    "events": frozenset({"GET"}),
    "breakpoints": frozenset({"GET", "POST", "DELETE"}),
    **{name: frozenset({"POST"}) for name in ("pause", "resume", "step", "seek", "reset", "wait")},
}
"""What is passed on, and by which methods."""
_CONNECT_S = 5
_REFUSED = frozenset({401, 403})
"""What a replay says to us, and what for a page would mean that we do not know it."""


class UnreachableError(InputError):
    """The replay does not answer."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Where a replay listens, and the token of its control interface."""

    url: str
    token: str

    @classmethod
    def at(cls, url: str, token: str | None) -> "Replay":
        """The replay at a URL.  Raises InputError."""
        try:
            where = urlsplit(url)
        except ValueError:
            raise no_replay_error(url) from None
        if where.scheme != "http" or not is_loopback_host(where.netloc) or where.path not in {"", "/"} or where.query:
            raise no_replay_error(url)
        if not token or not token.isascii() or not token.isprintable():
            raise InputError("The replay wants its token, which it said when it began: put it in $WIRETAPE_TOKEN.")
        return cls(f"http://{where.netloc}", token)


class Forwarder:
    """Passes requests on, by connections that are kept for the next one as long as the server runs."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._session: ClientSession | None = None

    async def lifetime(self, _app: web.Application) -> AsyncIterator[None]:
        """From the start of a server to its end; a `cleanup_ctx` of aiohttp."""
        # Each page that listens to the replay holds a connection, however many there are.
        async with ClientSession(
            timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S),
            connector=TCPConnector(limit=0),
            cookie_jar=DummyCookieJar(),
        ) as self._session:
            yield

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, and the answer back as it comes.  Raises UnreachableError."""
        response: web.StreamResponse | None = None
        body = await request.read()
        try:
            async with self._asking(request, body) as answer:
                if answer.status in _REFUSED:
                    raise UnreachableError(
                        f"The replay at {self.replay.url} does not take our token: is it another one?"
                    )
                response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
                await response.prepare(request)
                async for data in answer.content.iter_any():
                    await response.write(data)
        except (ClientError, TimeoutError) as error:
            if response is None:
                raise UnreachableError(
                    f"The replay at {self.replay.url} cannot be reached: {shorten(str(error))}."
                ) from None
        return response or web.Response(status=502)

    def _asking(self, request: web.Request, body: bytes) -> AbstractAsyncContextManager[ClientResponse]:
        if self._session is None:
            raise RuntimeError("nothing is forwarded before the server has started")
        url = f"{self.replay.url}{ROOT}{request.match_info['name']}"
        headers = {TOKEN_HEADER: self.replay.token, "Content-Type": "application/json"}
        return self._session.request(
            request.method, url, params=dict(request.query), data=body, headers=headers, allow_redirects=False
        )
