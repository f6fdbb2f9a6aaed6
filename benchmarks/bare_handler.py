"""A bare aiohttp handler that streams the frames of a file, one write each, as the reference for replays.

It also has a small JSON answer.

bare.py FILE [HZ]    prints its port; sends as fast as it can, or so many frames a second

The file holds frames one after the other, each ended by a blank line.
"""

import asyncio
import sys
from pathlib import Path

from aiohttp import web

DOCUMENT = b'{"id":"s0","title":"%s","status":"idle","created_at":"2026-01-01T00:00:00Z"}' % (b"a session " * 20)
"""The small JSON response."""


async def main(frames: list[bytes], hz: float | None) -> None:
    async def flat(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for frame in frames:
            await response.write(frame)
        await response.write_eof()
        return response

    async def paced(request: web.Request) -> web.StreamResponse:
        assert hz
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number, frame in enumerate(frames):
            await asyncio.sleep(began + number / hz - loop.time())
            await response.write(frame)
        await response.write_eof()
        return response

    async def document(_: web.Request) -> web.Response:
        return web.Response(body=DOCUMENT, content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/sessions/{id}/events/stream", paced if hz else flat)
    app.router.add_get("/v1/sessions/{id}", document)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    whole = [frame + b"\n\n" for frame in Path(sys.argv[1]).read_bytes().split(b"\n\n")[:-1]]
    asyncio.run(main(whole, float(sys.argv[2]) if len(sys.argv) > 2 else None))
