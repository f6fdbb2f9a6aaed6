"""The replay that the page drives: asked on its behalf, with a token that the page never sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from wiretape.control import ROOT, TOKEN_HEADER, no_replay
from wiretape.errors import InputError
from wiretape.local import names_loopback
from wiretape.text import shown

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
            raise no_replay(url) from None
        if where.scheme != "http" or not names_loopback(where.netloc) or where.path not in {"", "/"} or where.query:
            raise no_replay(url)
        if not token or not token.isascii() or not token.isprintable():
            raise InputError("The replay wants its token, which it said when it began: put it in $WIRETAPE_TOKEN.")
        return cls(f"http://{where.netloc}", token)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, and the answer back as it comes.  Raises UnreachableError."""
        name = request.match_info["name"]
        headers = {TOKEN_HEADER: self.token, "Content-Type": "application/json"}
        body = await request.read()
        timeout = ClientTimeout(total=None, sock_connect=_CONNECT_S)
        url, query = f"{self.url}{ROOT}{name}", dict(request.query)
        response: web.StreamResponse | None = None
        try:
            async with (
                ClientSession(timeout=timeout) as session,
                session.request(
                    request.method, url, params=query, data=body, headers=headers, allow_redirects=False
                ) as answer,
            ):
                if answer.status in _REFUSED:
                    raise UnreachableError(f"The replay at {self.url} does not take our token: is it another one?")
                response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
                await response.prepare(request)
                async for data in answer.content.iter_any():
                    await response.write(data)
        except (ClientError, TimeoutError) as error:
            if response is None:
                raise UnreachableError(f"The replay at {self.url} cannot be reached: {shown(str(error))}.") from None
        return response or web.Response(status=502)
