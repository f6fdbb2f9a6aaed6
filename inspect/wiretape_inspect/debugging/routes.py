"""The addresses of the debugger; the package says what each answers."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from wiretape.errors import InputError, RecordingError
from wiretape.recording import Recording
from wiretape_inspect import jsonlines
from wiretape_inspect.debugging import answers, asked, documents, pagetext
from wiretape_inspect.debugging.access import Access, foreign
from wiretape_inspect.debugging.asked import NotThereError
from wiretape_inspect.debugging.reading import Reader

Answer = Callable[[web.Request, Reader], Awaitable[web.StreamResponse]]
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Routes:
    """Answers every request."""

    def __init__(self, path: Path, access: Access) -> None:
        self._path = path
        self._access = access

    def app(self) -> web.Application:
        """What listens."""
        app = web.Application(middlewares=[self._guard], client_max_size=1 << 20)
        app.router.add_get("/", self._page, allow_head=False)
        for name, answer in _ANSWERS.items():
            app.router.add_get(f"/api/{name}", self._read(answer), allow_head=False)
        app.on_response_prepare.append(_add_headers)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        # The page itself asks for the token, and says what it is if there is none.
        refused = foreign(request) if request.path == "/" else self._access.refusal(request)
        if refused is not None:
            return answers.error(*refused)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return answers.error(error.status, f"{error.reason}.")
        except NotThereError as error:
            return answers.error(404, error.format_message())
        except RecordingError as error:
            return answers.error(500, error.format_message())
        except InputError as error:
            return answers.error(400, error.format_message())

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if self._access.opens(request):
            # The token is to stand in no address bar; what follows the # is kept by the browser.
            response: web.StreamResponse = web.Response(status=303, headers={"Location": "/"})
            self._access.let_in(request, response)
            return response
        refused = self._access.refusal(request)
        if refused is not None:
            return web.Response(status=refused[0], text=f"{refused[1]}\n")
        text, policy = pagetext.page()
        return web.Response(text=text, content_type="text/html", headers={"Content-Security-Policy": policy})

    def _read(self, answer: Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """The answer, with a reader of its own."""

        async def read(request: web.Request) -> web.StreamResponse:
            reader = Reader(self._path)
            try:
                return await answer(request, reader)
            finally:
                reader.leave()

        return read


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", pagetext.NOTHING)


async def _document(reader: Reader, make: Callable[[Recording], Any]) -> web.StreamResponse:
    """What `make` makes, which is also written in the reader's thread."""
    return answers.document(await reader.do(lambda recording: jsonlines.dump(make(recording)).encode()))


async def _recording(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ())
    return await _document(reader, documents.recording_document)


async def _rows(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange",))
    number = asked.number(request, "exchange")
    return await answers.lines(
        request, reader, lambda recording: documents.row_lines(recording, asked.exchange(recording, number))
    )


async def _events(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange", "first", "last"))
    number, first, last = (asked.number(request, name) for name in ("exchange", "first", "last"))
    return await answers.lines(
        request,
        reader,
        lambda recording: documents.event_lines(recording, asked.stream(recording, number), first, last),
    )


async def _overview(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange",))
    number = asked.number(request, "exchange")
    return await _document(
        reader, lambda recording: documents.overview_document(recording, asked.stream(recording, number))
    )


async def _event(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange", "event"))
    number, event = asked.number(request, "exchange"), asked.number(request, "event")
    return await _document(
        reader, lambda recording: documents.event_document(recording, asked.stream(recording, number), event)
    )


async def _resume(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("first", "second"))
    first, second = asked.number(request, "first"), asked.number(request, "second")
    return await answers.lines(
        request,
        reader,
        lambda recording: documents.resume_lines(
            recording, asked.exchange(recording, first), asked.exchange(recording, second)
        ),
    )


_ANSWERS: dict[str, Answer] = {
    "recording": _recording,
    "rows": _rows,
    "events": _events,
    "overview": _overview,
    "event": _event,
    "resume": _resume,
}
