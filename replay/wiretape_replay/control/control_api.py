"""The control API over HTTP: one route, `/_wiretape/OPERATION`, and a table of operations.

Only programs of this machine that know the control token may use it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from inspect import isawaitable
from itertools import count
from typing import Any, NoReturn

from aiohttp import web

from wiretape.addresses import refuse_caller
from wiretape.control_protocol import CONTROL_ROOT, TOKEN_HEADER, is_secret
from wiretape.errors import InputError
from wiretape.safe_text import shorten
from wiretape.sse import EVENT_STREAM
from wiretape_replay.control.control_operations import OPERATIONS, Operation
from wiretape_replay.control.control_state import PlayheadState
from wiretape_replay.control.playhead_control import PlayheadControl, UnknownChannelError

_CODES = {
    400: "wiretape_invalid_request",
    401: "wiretape_token_required",
    403: "wiretape_forbidden",
    404: "wiretape_not_found",
    405: "wiretape_method_not_allowed",
    413: "wiretape_invalid_request",
}
"""No service uses these codes, so clients cannot mistake them for its errors."""
_KEEP_ALIVE_S = 15.0
_SHORTEST_PAUSE_S = 0.02
"""Changes within this time are reported as one."""

_Document = dict[str, Any]


_FEED = "events"
_METHODS = {name: list(methods) for name, methods in OPERATIONS.items()} | {_FEED: ["GET"]}


class ControlApi:
    """Responds to every request under `/_wiretape/`."""

    def __init__(self, control: PlayheadControl, token: str) -> None:
        self._control = control
        self._token = token
        self._request_ids = count(1)

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond to one request."""
        refusal = _find_refusal(request, self._token)
        if refusal is not None:
            return self._error(*refusal)
        path = request.raw_path.partition("?")[0]
        name = path.removeprefix(CONTROL_ROOT)
        methods = _METHODS.get(name)
        if methods is None or not path.startswith(CONTROL_ROOT):
            known = ", ".join(_METHODS)
            return self._error(404, f"Unknown path {shorten(path)}: expected {CONTROL_ROOT} and one of {known}.")
        if request.method not in methods:
            allowed = ", ".join(methods)
            return self._error(405, f"{name} does not support {request.method}: use {allowed}.", {"Allow": allowed})
        if name == _FEED:
            return await self._send_feed(request)
        return await self._run(OPERATIONS[name][request.method], request)

    async def _run(self, operation: Operation, request: web.BaseRequest) -> web.Response:
        try:
            parameters = operation.check(await _parameters(request))
            name = parameters.pop("channel")
            control = self._control if name is None else self._control.channel(name)
            outcome = operation.function(control, **parameters)
            outcome = await outcome if isawaitable(outcome) else outcome
            document = asdict(control.state()) if operation.has_state else {}
            return _json(200, document | (dict(operation.result(control, outcome)) if operation.result else {}))
        except UnknownChannelError as error:
            return self._error(404, error.message)
        except InputError as error:
            return self._error(400, error.message)
        except web.HTTPRequestEntityTooLarge:
            return self._error(413, "The request body is too long.")
        except web.RequestPayloadError:
            return self._error(400, "The request body is incomplete.")

    async def _send_feed(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM, "Cache-Control": "no-store"})
        try:
            await response.prepare(request)
            async for message in _feed(self._control):
                await response.write(message)
        except ConnectionError:
            pass  # the reader has left
        return response

    def _error(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
        request_id = f"wiretape-control-{next(self._request_ids)}"
        error = {"code": _CODES[status], "message": message, "request_id": request_id}
        if status == 401:  # RFC 9110, 11.6.1: a 401 response must have this header
            headers = {"WWW-Authenticate": TOKEN_HEADER}
        return _json(status, {"error": error}, headers)


async def _feed(control: PlayheadControl) -> AsyncIterator[bytes]:
    """SSE messages: the state of every channel, then the state of each channel that has changed, and client findings.

    A message is a channel's state with counts in place of its breakpoints and streams.  Its id counts the changes of
    the replay.  Ends with the replay.
    """
    sent: dict[str, _Document] = {}
    told = 0
    while not control.changes.is_closed:
        count = control.changes.count
        for channel in control.state().channels:
            document = _summarise(channel)
            if sent.get(channel.channel) != document:
                sent[channel.channel] = document
                yield f"id: {count}\nevent: playhead\ndata: {json.dumps(document)}\n\n".encode()
        for finding in control.client_findings[told:]:
            yield f"id: {count}\nevent: finding\ndata: {json.dumps(asdict(finding))}\n\n".encode()
            told += 1
        try:
            async with asyncio.timeout(_KEEP_ALIVE_S):
                await control.changes.wait(count)
        except TimeoutError:
            yield b": keep-alive\n\n"
        await asyncio.sleep(_SHORTEST_PAUSE_S)


def _summarise(state: PlayheadState) -> _Document:
    document = asdict(state)
    document["streams"] = len(state.streams)
    document["breakpoints"] = len(state.breakpoints)
    if state.next is not None:
        document["next"] = {name: document["next"][name] for name in ("kind", "type", "sequence", "id")}
    return document


def _find_refusal(request: web.BaseRequest, token: str) -> tuple[int, str] | None:
    """The status and the message of the error response to a caller who may not use the API; None for others."""
    hosts, origins, tokens = (request.headers.getall(name, []) for name in ("Host", "Origin", TOKEN_HEADER))
    if refusal := refuse_caller("The control API", request.remote or "", hosts, origins):
        return 403, refusal
    if not tokens:
        return 401, f"The header {TOKEN_HEADER} is missing: send the control token printed by the replay."
    if len(tokens) != 1 or not is_secret(tokens[0], token):
        return 401, f"The token in {TOKEN_HEADER} is not the control token of this replay."
    return None


async def _parameters(request: web.BaseRequest) -> _Document:
    """The parameters of an operation: the JSON object in the body, or the query of a GET.  Raises InputError."""
    if request.method == "GET":
        return dict(request.query)
    body = await request.read()
    if not body.strip():
        return {}
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise InputError("The request body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise InputError('The request body is not a JSON object, such as {"channel": "s1"}.')
    return value


def _refuse_constant(constant: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(constant)


def _json(status: int, document: _Document, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response.  The standard library writes ids that other encoders refuse, such as lone surrogates."""
    body = json.dumps(document).encode() + b"\n"
    return web.Response(
        status=status,
        body=body,
        content_type="application/json",
        headers={**(headers or {}), "Cache-Control": "no-store"},
    )
