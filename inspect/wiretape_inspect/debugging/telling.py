"""What changes, told to a page for as long as it listens."""

import asyncio
import time

from aiohttp import web

from wiretape.contract import CURSOR_HEADER, EVENT_STREAM
from wiretape.errors import InputError
from wiretape.recording import TailPosition
from wiretape_inspect import jsonlines
from wiretape_inspect.debugging import answers, asked
from wiretape_inspect.debugging.live import KEEP_ALIVE, Live, message, place_of
from wiretape_inspect.debugging.presence import Presence
from wiretape_inspect.debugging.reading import Reader

LEAST_S, MOST_S = 0.2, 2.0
"""Between two looks at the recording: as long as one takes, so that half of the time is left to others."""
_KEEP_ALIVE_S = 15.0


async def follow(request: web.Request, reader: Reader, presence: Presence) -> web.StreamResponse:
    """Answer a request for what changes.  Raises InputError and RecordingError."""
    live = _asked(request)
    if (number := asked.optional(request, "exchange")) is not None:
        await reader.do(lambda recording: asked.exchange(recording, number))
        await reader.rest()
    response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
    await response.prepare(request)
    try:
        await _follow(response, live, reader, presence)
    except InputError as error:
        data = {"ended_ns": None, **answers.told(str(error))}
        await response.write(f"{message('closed', jsonlines.dump(data))}\n".encode())
    await response.write_eof()
    return response


async def _follow(response: web.StreamResponse, live: Live, reader: Reader, presence: Presence) -> None:
    spoken = time.monotonic()
    while True:
        began, recorded = time.monotonic(), presence.recording
        async for data in reader.lines(lambda recording: live.read(recording, recorded=recorded)):  # noqa: B023
            await response.write(data)
            spoken = time.monotonic()
        await reader.rest()
        if live.closed:
            return
        if time.monotonic() - spoken >= _KEEP_ALIVE_S:
            await response.write(f"{KEEP_ALIVE}\n".encode())
            spoken = time.monotonic()
        await asyncio.sleep(min(max(time.monotonic() - began, LEAST_S), MOST_S))


def _asked(request: web.Request) -> Live:
    """What a request wants to be told."""
    asked.only(request, ("exchange", "after", "rows"))
    number, rows = asked.optional(request, "exchange"), asked.optional(request, "rows") or 0
    lost = request.headers.get(CURSOR_HEADER)
    if lost:
        # A browser comes back by itself, to the same address as before.
        since, known = place_of(lost)
        return Live(number, since, known or 0)
    place = request.query.get("after")
    # The rows in a message's id are those of an exchange that need not be this one.
    return Live(number, place_of(place)[0] if place is not None else TailPosition(), rows)
