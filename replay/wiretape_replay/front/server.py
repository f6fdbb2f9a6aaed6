"""The HTTP front: connections, requests and their answers."""

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from wiretape.addresses import listen_error, origin_of
from wiretape.errors import InputError
from wiretape.recording import RedactionPolicy
from wiretape.safe_text import shorten
from wiretape_replay.front.asked import NO_BODY, Asked, BodyReader
from wiretape_replay.front.foreign import Foreign, Runner
from wiretape_replay.front.line import Line
from wiretape_replay.front.lingering import LONGEST_S
from wiretape_replay.front.source import Source
from wiretape_replay.front.tap import Deaf, Tap, Watcher

_LONGEST_LINE = 256 * 1024
"""Bytes of a request line or header: a replay accepts what a service accepted."""
_MOST_HEADERS = 1000
_LAST_PORT = 65535
_STOP_S = 5.0
"""How long aiohttp may wait for answers to end that were told to."""


class _Written(web.StreamResponse):
    """Tells aiohttp that every byte of a response has been written already."""

    def __init__(self, *, keep_alive: bool) -> None:
        super().__init__()
        self._stays = keep_alive

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open."""
        return self._stays

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing: the head is written."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing: the end is written."""


_SECRET = re.compile(
    rf"({'|'.join((*RedactionPolicy().credential_headers, *RedactionPolicy().secret_headers))})\s*:.*", re.IGNORECASE
)
"""A header with a secret, and all behind it, in a message that quotes what a client sent."""


class _HttpLog(logging.LoggerAdapter[logging.Logger]):
    """What aiohttp logs to: one line instead of a traceback, which is for those who look for a fault of ours."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.getLogger("wiretape_replay"), {})
        self._tell = tell

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """See logging.LoggerAdapter."""
        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError):
            told = _SECRET.sub(r"\1: …", " ".join(error.message.split()))
            self._tell(shorten(f"A client sent what is not HTTP → 400: {told}"))
        elif isinstance(error, Exception):
            told = shorten(f"{type(error).__name__}: {' '.join(str(error).split())}")
            super().log(level, "A request could not be answered, by a fault of wiretape: %s", told)
            super().log(logging.DEBUG, msg, *args, **kwargs)
        else:
            super().log(level, msg, *args, **kwargs)


class Front:
    """Speaks HTTP/1.1 with clients; what it says comes from a source.

    Routes added to `app` come first; every other request, whatever its method and target, is the source's.
    """

    def __init__(
        self,
        source: Source,
        log: Callable[[str], None],
        watcher: Watcher | None = None,
        foreign: Foreign | None = None,
    ) -> None:
        """`foreign` answers what is no request that a source could see; None: aiohttp does, in its own words."""
        self.app = web.Application(middlewares=[self._ask_source])
        self._source = source
        self._watcher: Watcher = watcher or Deaf()
        self._log = log
        self._lines: set[Line] = set()
        self._runner = Runner(
            self.app,
            foreign,
            access_log=None,
            logger=_HttpLog(log),
            auto_decompress=False,
            handler_cancellation=True,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            max_headers=_MOST_HEADERS,
            lingering_time=LONGEST_S,
            shutdown_timeout=_STOP_S,
        )

    async def start(self, host: str, port: int) -> str:
        """Listen; port 0 takes a free one.  Returns the base URL.  Raises InputError."""
        if port not in range(_LAST_PORT + 1):
            raise InputError(
                f"There is no port {shorten(str(port), 60)} to listen on: give one from 0 to {_LAST_PORT}."
            )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise InputError(listen_error(host, port, error)) from None
        return origin_of(*self._runner.addresses[0][:2])

    async def stop(self) -> None:
        """Stop listening, and end the connections that are open."""
        for site in self._runner.sites:
            await site.stop()
        for line in list(self._lines):
            line.abort()
        await self._runner.cleanup()

    @web.middleware
    async def _ask_source(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.http_exception is None:
            return await handler(request)
        asked = _head(request)
        tap = self._watcher.asked(asked)
        line = Line(request, tap)
        self._lines.add(line)
        try:
            await self._source.answer(await _whole(request, asked, tap), line)
        except InputError as error:
            self._log(f"Error: {error.message}")
            line.close()
        except (ConnectionError, web.RequestPayloadError):
            line.leave()  # the client left, or sent a body that is none
        except Exception:
            line.close()  # no error of the service says that its program is wrong
            raise
        finally:
            self._lines.discard(line)
            line.over()
        return _Written(keep_alive=line.keep_alive)


def _head(request: web.Request) -> Asked:
    """What was asked, as far as the head says."""
    return Asked(
        method=request.method,
        target=request.raw_path.encode("utf-8", "surrogateescape").decode("latin-1"),
        body=NO_BODY,
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers),
        http_version=f"HTTP/{request.version.major}.{request.version.minor}",
        client=request.remote or "",
    )


async def _whole(request: web.Request, asked: Asked, tap: Tap) -> Asked:
    """Read the request to its end."""
    body = BodyReader()
    async for data in request.content.iter_any():
        body.feed(data)
        tap.received(data)
    tap.whole()
    return replace(asked, body=body.finish())
