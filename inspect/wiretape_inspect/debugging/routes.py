"""The addresses of the debugger; the package says what each answers."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from wiretape.errors import InputError, RecordingError
from wiretape.recording import Recording
from wiretape.safe_text import shorten
from wiretape_inspect.debugging import answers, asked, documents, pagetext
from wiretape_inspect.debugging.access import Access, foreign
from wiretape_inspect.debugging.asked import NotThereError
from wiretape_inspect.debugging.forwarding import NAMES, Forwarder, Replay, UnreachableError
from wiretape_inspect.debugging.live import place_text
from wiretape_inspect.debugging.presence import Presence
from wiretape_inspect.debugging.reading import Reader
from wiretape_inspect.debugging.reads import ANSWERS, Answer, document
from wiretape_inspect.debugging.telling import follow

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
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

    def __init__(
        self, opening: Callable[[], Recording], access: Access, presence: Presence, replay: Replay | None = None
    ) -> None:
        self._opening = opening
        self._access = access
        self._presence = presence
        self._forwarder = Forwarder(replay) if replay is not None else None

    def app(self) -> web.Application:
        """What listens."""
        app = web.Application(middlewares=[self._guard], client_max_size=1 << 20)
        app.router.add_get("/", self._page, allow_head=False)
        for name, answer in {**ANSWERS, "recording": self._recording, "live": self._live}.items():
            app.router.add_get(f"/api/{name}", self._read(answer), allow_head=False)
        app.router.add_route("*", "/api/replay/{name}", self._forward)
        app.on_response_prepare.append(_add_headers)
        if self._forwarder is not None:
            app.cleanup_ctx.append(self._forwarder.lifetime)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        # The page itself asks for the token, and says what it is if there is none.
        refused = foreign(request) if request.path == "/" else self._access.refusal(request)
        if refused is not None:
            return answers.error(*refused)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return answers.error(error.status, f"{error.reason}.")
        except NotThereError as error:
            return answers.error(404, str(error))
        except UnreachableError as error:
            return answers.error(502, str(error))
        except RecordingError as error:
            return answers.error(500, str(error))
        except InputError as error:
            return answers.error(400, str(error))

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

    async def _recording(self, request: web.Request, reader: Reader) -> web.StreamResponse:
        asked.only(request, ())
        recorded = self._presence.recording

        def made(recording: Recording) -> dict[str, Any]:
            live = recorded and recording.info.ended_ns is None
            place = place_text(recording.tail_position())
            replay = {"url": self._forwarder.replay.url} if self._forwarder is not None else None
            return {**documents.recording_document(recording), "live": live, "replay": replay, "place": place}

        return await document(reader, made)

    async def _live(self, request: web.Request, reader: Reader) -> web.StreamResponse:
        return await follow(request, reader, self._presence)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if self._forwarder is None:
            raise NotThereError("No replay is attached: `wiretape replay --debug` does that.")
        name = request.match_info["name"]
        methods = NAMES.get(name)
        if methods is None:
            raise NotThereError(f"There is no {shorten(name, 60)}; there is {', '.join(NAMES)}.")
        if request.method not in methods:
            return answers.error(405, f"{name} takes {' and '.join(sorted(methods))}.")
        return await self._forwarder.answer(request)

    def _read(self, answer: Answer) -> Handler:
        """The answer, with a reader of its own."""

        async def read(request: web.Request) -> web.StreamResponse:
            reader = Reader(self._opening)
            try:
                return await answer(request, reader)
            finally:
                reader.leave()

        return read


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", pagetext.NOTHING)
