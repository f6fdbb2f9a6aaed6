"""What clients send that is no request anybody could answer, and aiohttp would answer in its own words."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from wiretape_replay.front.answer import Answer
from wiretape_replay.front.lingering import LingeringConnection

Foreign = Callable[[str], Answer]
"""What to answer; the text says what is wrong."""


class Runner(web.AppRunner):
    """Runs an app, and asks somebody else for the answer where aiohttp would give one."""

    __slots__ = ("_foreign",)

    def __init__(self, app: web.Application, foreign: Foreign | None, **how: Any) -> None:
        super().__init__(app, **how)
        self._foreign = foreign

    async def _make_server(self) -> web.Server:
        return _Server(await super()._make_server(), self._foreign)


class _Server(web.Server):
    """The server of a runner, with connections of our own."""

    def __init__(self, made: web.Server, foreign: Foreign | None) -> None:
        super().__init__(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            **made._kwargs,  # noqa: SLF001 - what the runner was made with
        )
        self._made = made
        self._foreign = foreign
        self.request_handler = self._answer

    def __call__(self) -> web.RequestHandler:
        if self._foreign is None:
            return LingeringConnection(self, loop=self._loop, **self._kwargs)
        return _Connection(self._foreign, self, loop=self._loop, **self._kwargs)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._made.request_handler(request)
        except web.HTTPException as refused:  # such as an Expect header that nobody knows
            if self._foreign is None:
                raise
            return _Last(self._foreign(refused.text or refused.reason))


class _Connection(LingeringConnection):
    """A connection: what is no HTTP gets an answer that clients understand."""

    __slots__ = ("_foreign",)

    def __init__(self, foreign: Foreign, manager: web.Server, **how: Any) -> None:
        super().__init__(manager, **how)
        self._foreign = foreign

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """See aiohttp, which logs it."""
        theirs = super().handle_error(request, status, exc, message)
        if status >= 500:
            # No error of the service says that its program is wrong.
            raise ConnectionError("There is no answer")
        theirs.force_close()
        return _Last(self._foreign(message or "This is no HTTP."))


class _Last(web.StreamResponse):
    """An answer that is written as it is, without the headers that aiohttp adds; the connection ends with it."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(status=answer.status)
        self._answer = replace(answer, headers=(*answer.headers, ("Connection", "close")))
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write all of it."""
        if request.transport is not None:
            body = b"" if request.method == "HEAD" else self._answer.body
            request.transport.write(self._answer.head().raw + body)

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing: everything is written."""
