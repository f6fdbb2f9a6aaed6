"""The source of a service that is played by scenarios: streams by playheads, everything else by its operations."""

from collections.abc import Callable, Sequence

from wiretape.contract import INVALID_REQUEST, RESOURCE_NOT_FOUND, STREAM, is_preflight
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import HttpRequest, Response
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.responses.access_settings import ANY_KEY
from wiretape_replay.responses.auth_and_rate_limits import AccessControl
from wiretape_replay.responses.error_envelope import RequestIds, error_response
from wiretape_replay.service.engine.commands import Refusal
from wiretape_replay.service.operations.doing import Doing, Request
from wiretape_replay.service.operations.reading import check_stream
from wiretape_replay.service.operations.routing import Found, Route, find
from wiretape_replay.session.session_streams import SessionStreams


class ScenarioSource:
    """Answers requests that a guard has let pass."""

    def __init__(
        self,
        doing: Doing,
        streams: SessionStreams,
        guard: AccessControl,
        *,
        routes: Sequence[Route],
        request_ids: RequestIds,
        log: Callable[[str], None],
    ) -> None:
        """`guard` knows whose keys are whose.  `log` takes a line for each request."""
        self._doing = doing
        self._streams = streams
        self._guard = guard
        self._routes = routes
        self._request_ids = request_ids
        self._log = log

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        """See Source."""
        try:
            found = find(self._routes, asked.method, asked.target)
            if found.route is None:
                answer = self._nothing(asked, found)
            else:
                request = Request(asked, found, self._guard.key(asked) or ANY_KEY)
                if found.route.name == STREAM.name:
                    live = self._doing.session(request)
                    check_stream(asked)
                    await self._streams.serve(asked, line, live.session)
                    return
                answer = self._doing.do(request)
        except Refusal as refusal:
            answer = error_response(
                refusal.code,
                refusal.message,
                self._request_ids.next(),
                active=refusal.active,
                reasons=refusal.reasons,
            )
        # The query may hold secrets.
        self._log(shorten(f"{asked.method} {asked.target.partition('?')[0]} → {answer.status}"))
        await line.respond(answer)

    def _nothing(self, asked: HttpRequest, found: Found) -> Response:
        """What to answer where there is nothing."""
        allowed = ", ".join(found.allowed)
        if found.allowed and is_preflight(asked.method, asked.headers):
            return Response(200, b"", (("Allow", allowed),))
        path = shorten(asked.target.partition("?")[0])
        if not found.allowed:
            return error_response(RESOURCE_NOT_FOUND, f"There is no {path}.", self._request_ids.next())
        told = f"{path} takes {allowed}."
        return error_response(INVALID_REQUEST, told, self._request_ids.next(), headers=(("Allow", allowed),))
