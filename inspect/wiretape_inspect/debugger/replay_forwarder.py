"""Forwards the page's requests to the control API of a replay, with a token that the page never gets."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

from wiretape.addresses import origin_of
from wiretape.control_protocol import CONTROL_ROOT, TOKEN_HEADER, check_token, parse_replay_url
from wiretape.errors import InputError
from wiretape.safe_text import shorten

_CONNECT_S = 5
_TOKEN_REFUSED = frozenset({401, 403})
"""Status codes that must not reach the page: there, they would mean that its own cookie is refused."""


class UnreachableError(InputError):
    """The replay does not respond, or refuses the token."""


@dataclass(frozen=True, slots=True)
class ReplayAddress:
    """Where a replay listens, and its control token."""

    url: str
    token: str

    @classmethod
    def parse(cls, url: str, token: str | None) -> "ReplayAddress":
        """Check the URL and the token of a replay.  Raises InputError."""
        address = parse_replay_url(url, needs_loopback=True)
        if not token:
            raise InputError("Missing control token: set $WIRETAPE_TOKEN to the token printed by the replay.")
        return cls(origin_of(*address), check_token(token))


class ReplayForwarder:
    """Forwards requests over connections that are kept open as long as the server runs."""

    def __init__(self, replay: ReplayAddress) -> None:
        self.replay = replay
        self._session: ClientSession | None = None

    async def lifetime(self, _app: web.Application) -> AsyncIterator[None]:
        """Open the connections when the server starts, close them when it ends; a `cleanup_ctx` of aiohttp."""
        # Every open page holds a connection for the events of the replay, so their number is not limited.
        async with ClientSession(
            timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S),
            connector=TCPConnector(limit=0),
            cookie_jar=DummyCookieJar(),
            headers={TOKEN_HEADER: self.replay.token, "Content-Type": "application/json"},
        ) as self._session:
            yield

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, and pass the response on as it arrives.  Raises UnreachableError."""
        if self._session is None:
            raise RuntimeError("the server has not started")
        response: web.StreamResponse | None = None
        url = f"{self.replay.url}{CONTROL_ROOT}{request.match_info['name']}"
        body = await request.read()
        try:
            async with self._session.request(
                request.method, url, params=dict(request.query), data=body, allow_redirects=False
            ) as received:
                if received.status in _TOKEN_REFUSED:
                    raise UnreachableError(
                        f"The replay at {self.replay.url} refused the control token: was the replay restarted?"
                    )
                response = web.StreamResponse(status=received.status, headers={"Content-Type": received.content_type})
                await response.prepare(request)
                async for data in received.content.iter_any():
                    await response.write(data)
        except (ClientError, TimeoutError) as error:
            if response is None:
                raise UnreachableError(
                    f"The replay at {self.replay.url} cannot be reached: {shorten(str(error))}."
                ) from None
        return response or web.Response(status=502)
