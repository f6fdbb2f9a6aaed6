"""A bare aiohttp handler that streams the frames of a file, one write each: what a replay is measured against.

bare.py FILE    prints its port; the file holds frames one after the other, each ended by a blank line
"""

import asyncio
import sys
from pathlib import Path

from aiohttp import web


async def main(frames: list[bytes]) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for frame in frames:
            await response.write(frame)
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_get("/v1/sessions/{id}/events/stream", stream)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main([frame + b"\n\n" for frame in Path(sys.argv[1]).read_bytes().split(b"\n\n")[:-1]]))
