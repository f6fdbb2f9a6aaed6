"""Answers to the page: documents, lines as they are made, and errors."""

from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from wiretape.errors import InputError
from wiretape.recording import Recording
from wiretape_inspect import jsonlines
from wiretape_inspect.debugging.reading import Reader

LINES = "application/x-ndjson"


def document(value: Any, status: int = 200) -> web.Response:
    """One JSON document."""
    return web.Response(
        body=value if isinstance(value, bytes) else jsonlines.dump(value).encode(),
        status=status,
        content_type="application/json",
    )


def error(status: int, message: str) -> web.Response:
    """A refusal."""
    return document(told(message), status)


async def lines(request: web.Request, reader: Reader, make: Callable[[Recording], Iterator[str]]) -> web.StreamResponse:
    """Lines, each sent soon after it was made.  Raises what `make` raises; later, the last line tells of an error."""
    found = reader.lines(make)
    first = await anext(found, b"")
    response = web.StreamResponse(headers={"Content-Type": LINES})
    await response.prepare(request)
    await response.write(first)
    try:
        async for data in found:
            await response.write(data)
    except InputError as failed:
        await response.write(f"{jsonlines.dump(told(str(failed)))}\n".encode())
    await response.write_eof()
    return response


def told(message: str) -> dict[str, Any]:
    """An error, as all answers tell of one."""
    return {"error": {"message": message}}
