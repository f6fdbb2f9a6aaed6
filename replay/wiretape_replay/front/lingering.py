"""Connections that end so that the client gets the last answer, whatever it is still sending."""

import asyncio
from contextlib import suppress
from typing import Any

from aiohttp import web

LONGEST_S = 10.0
"""How long a client has to send the rest of a request that was answered before, or to close its side."""
_MOST = 64 * 1024 * 1024
"""Bytes that a client may send after it was told that this is the end."""


class LingeringConnection(web.RequestHandler):
    """A connection that ends in two steps (RFC 9112, 9.6): ours, and the client's.

    A system that is sent more on a connection that it has closed, or has closed it with something unread, resets it;
    what was sent last is lost to a client that has not read it yet.
    """

    __slots__ = ("_hurry", "_left")

    def __init__(self, manager: web.Server, **how: Any) -> None:
        super().__init__(manager, **how)
        self._hurry = asyncio.Event()
        self._left: int | None = None
        """Bytes that the client may still send; None while somebody reads them."""

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """See aiohttp; returns when the client has left, after the last answer."""
        resp, gone = await super().finish_response(request, resp, start_time)
        if gone or resp.keep_alive:
            return resp, gone
        await self._linger()
        return resp, True

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._left is None:
            super().data_received(data)
            return
        self._left -= len(data)
        if self._left < 0:
            self._hurry.set()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's
        """See aiohttp; waits for no client that has its answer."""
        self._hurry.set()
        if not self._request_in_progress and self._task_handler is not None:
            self._task_handler.cancel()  # aiohttp reads what is left of a request
        await super().shutdown(timeout)

    async def _linger(self) -> None:
        """Say that this is the end, and drop what still comes; not for ever."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self._left = _MOST
        transport.write_eof()
        transport.resume_reading()  # aiohttp may have had enough
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_S):
                await self._hurry.wait()
