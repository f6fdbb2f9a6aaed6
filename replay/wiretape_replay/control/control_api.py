"""The control interface over HTTP: `/_wiretape/…`."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from itertools import count

from aiohttp import web

from wiretape.contract import ENVELOPE_KEY, EVENT_STREAM
from wiretape.control_protocol import LONGEST_WAIT_S, MOST_STEPS, PATIENCE_S, ROOT, TOKEN_HEADER
from wiretape.errors import InputError
from wiretape.safe_text import shorten
from wiretape_replay.control import feed
from wiretape_replay.control.admission import Caller, refusal
from wiretape_replay.control.control_state import entry_state
from wiretape_replay.control.fields import Fields
from wiretape_replay.control.playhead_control import PlayheadControl, UnknownSessionError, Until
from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.playhead import Step

_CODES = {
    400: "wiretape_invalid_request",
    401: "wiretape_token_required",
    403: "wiretape_forbidden",
    404: "wiretape_not_found",
    405: "wiretape_method_not_allowed",
    413: "wiretape_invalid_request",
}
"""The service has none of these, so that nobody takes them for its own."""
_FEED = "events"
_POINT = ("type", "sequence", "tool_call_id", "finding")

_Document = Mapping[str, object]
_Operation = Callable[[Fields], Awaitable[_Document]]


class ControlApi:
    """Answers every request under `/_wiretape/`."""

    def __init__(self, operations: PlayheadControl, token: str) -> None:
        self._operations = operations
        self._token = token
        self._request_ids = count(1)
        self._table: Mapping[str, Mapping[str, _Operation]] = {
            "state": {"GET": self._state},
            "pause": {"POST": self._pause},
            "resume": {"POST": self._resume},
            "step": {"POST": self._step},
            "seek": {"POST": self._seek},
            "breakpoints": {"GET": self._breakpoints, "POST": self._add, "DELETE": self._remove},
            "reset": {"POST": self._reset},
            "wait": {"POST": self._wait},
            _FEED: {"GET": self._state},
            **({"advance": {"POST": self._advance}} if operations.advance is not None else {}),
        }

    def attach(self, app: web.Application) -> None:
        """Let the app answer with it."""
        for path in (ROOT.rstrip("/"), ROOT + "{rest:.*}"):
            app.router.add_route("*", path, self.answer)
        app.on_shutdown.append(self._let_go)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        refused = refusal(_caller(request), self._token)
        if refused is not None:
            return self._error(*refused)
        path = request.raw_path.partition("?")[0]
        name = path.removeprefix(ROOT)
        methods = self._table.get(name)
        if methods is None or not path.startswith(ROOT):
            return self._error(404, f"There is no {shorten(path)}; there is {', '.join(self._table)} under {ROOT}.")
        if request.method not in methods:
            return self._error(405, f"{name} takes {' and '.join(methods)}.", {"Allow": ", ".join(methods)})
        if name == _FEED:
            return await self._follow(request)
        return await self._do(methods[request.method], request)

    async def _do(self, operation: _Operation, request: web.Request) -> web.Response:
        try:
            return _json(200, await operation(await _fields(request)))
        except UnknownSessionError as error:
            return self._error(404, error.message)
        except InputError as error:
            return self._error(400, error.message)
        except web.HTTPRequestEntityTooLarge:
            return self._error(413, "The body is too long.")
        except web.RequestPayloadError:
            return self._error(400, "The body did not arrive whole.")

    async def _state(self, fields: Fields) -> _Document:
        return self._now(_session(fields))

    async def _pause(self, fields: Fields) -> _Document:
        self._operations.pause(session_id := _session(fields))
        return self._now(session_id)

    async def _resume(self, fields: Fields) -> _Document:
        self._operations.resume(session_id := _session(fields))
        return self._now(session_id)

    async def _advance(self, fields: Fields) -> _Document:
        """Of a service that a scenario plays."""
        fields.only(["seconds"])
        if self._operations.advance is not None:
            await self._operations.advance(fields.unchecked("seconds"))
        return self._now(None)

    async def _step(self, fields: Fields) -> _Document:
        session_id = _session(fields, "to", "count")
        to, steps = fields.choice("to", Step.EVENT), fields.count("count", 1, MOST_STEPS)
        passed = self._operations.steps(session_id, to, steps)
        place = self._operations.session_state(session_id).place
        stepped = asdict(entry_state(passed[-1], place - 1)) if len(passed) == steps else None
        return {**self._now(session_id), "stepped": stepped, "found": len(passed)}

    async def _seek(self, fields: Fields) -> _Document:
        session_id = _session(fields, "sequence", "event", "time_s", "place", "end")
        self._operations.seek(
            session_id,
            sequence=fields.integer("sequence"),
            event=fields.text("event"),
            time_s=fields.number("time_s"),
            place=fields.integer("place"),
            end=fields.flag("end"),
        )
        return self._now(session_id)

    async def _breakpoints(self, fields: Fields) -> _Document:
        sessions = self._operations.state(_session(fields)).sessions
        return {"breakpoints": {state.session: [asdict(point) for point in state.breakpoints] for state in sessions}}

    async def _add(self, fields: Fields) -> _Document:
        session_id, point = _session(fields, *_POINT), _point(fields)
        self._operations.add_breakpoint(point, session_id)
        return self._now(session_id)

    async def _remove(self, fields: Fields) -> _Document:
        session_id, point = _session(fields, *_POINT), _point(fields)
        self._operations.remove_breakpoint(None if point.is_empty else point, session_id)
        return self._now(session_id)

    async def _reset(self, fields: Fields) -> _Document:
        self._operations.reset(session_id := _session(fields))
        return self._now(session_id)

    async def _wait(self, fields: Fields) -> _Document:
        session_id = _session(fields, "until", "timeout_s")
        timeout_s = fields.number("timeout_s", LONGEST_WAIT_S)
        timeout_s = PATIENCE_S if timeout_s is None else timeout_s
        reached = await self._operations.wait(session_id, fields.choice("until", Until.STANDING), timeout_s)
        return {**self._now(session_id), "reached": reached}

    def _now(self, session_id: str | None) -> dict[str, object]:
        return asdict(self._operations.state(session_id))

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM, "Cache-Control": "no-store"})
        try:
            await response.prepare(request)
            async for message in feed.changes(self._operations):
                await response.write(message)
        except ConnectionError:
            pass  # nobody reads any more
        return response

    async def _let_go(self, _: web.Application) -> None:
        self._operations.changes.close()

    def _error(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
        request_id = f"wiretape-control-{next(self._request_ids)}"
        error = {"code": _CODES[status], "message": message, "request_id": request_id}
        if status == 401:  # RFC 9110, 11.6.1: no 401 goes without
            headers = {"WWW-Authenticate": TOKEN_HEADER}
        return _json(status, {ENVELOPE_KEY: error}, headers)


def _caller(request: web.Request) -> Caller:
    headers = request.headers
    return Caller(
        address=request.remote,
        hosts=headers.getall("Host", []),
        origins=headers.getall("Origin", []),
        tokens=headers.getall(TOKEN_HEADER, []),
    )


async def _fields(request: web.Request) -> Fields:
    """What the body says, or, where there is none to send, the query."""
    if request.method == "GET":
        return Fields(dict(request.query))
    return Fields.read(await request.read())


def _session(fields: Fields, *others: str) -> str | None:
    """The session that is named; refuses fields that are neither that nor one of `others`."""
    fields.only(["session", *others])
    return fields.text("session")


def _point(fields: Fields) -> Breakpoint:
    return Breakpoint(
        fields.text("type"), fields.integer("sequence"), fields.text("tool_call_id"), fields.text("finding")
    )


def _json(status: int, document: _Document, headers: Mapping[str, str] | None = None) -> web.Response:
    """Written by the standard library: ids of recordings may hold what other writers refuse."""
    body = json.dumps(document).encode() + b"\n"
    return web.Response(
        status=status,
        body=body,
        content_type="application/json",
        headers={**(headers or {}), "Cache-Control": "no-store"},
    )
