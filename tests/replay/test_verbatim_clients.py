"""Other clients get what was recorded: httpx, curl, and replays in the caller's event loop."""

import asyncio
import hashlib
import subprocess
import time

import httpx
import pytest
from programs import find_program

from wiretape.observations import Ending
from wiretape_replay import ReplayOptions, serve_replay

JSON = (("Content-Type", "application/json"),)
PINGED = [
    b"event: run.started\r\nid: e1\r\ndata: {}\r\n\r\n",
    b": ping - 2026-01-01 00:00:00\r\n\r\n",
    b'event: message.delta\r\ndata: {"delta":',
    b'{"text":"caf\xc3',
    b'\xa9"}}\r\n\r\n',
]  # fmt: skip
TAPE = ReplayOptions(mode="verbatim")
STREAM = "/v1/sessions/s1/events/stream"


def curl(*args: str) -> subprocess.CompletedProcess[bytes]:
    command = [find_program("curl"), "-sN", "--max-time", "20", *args]
    return subprocess.run(command, capture_output=True, check=False, timeout=30)


def test_httpx_and_curl_get_the_recorded_body(builder, serve):
    for _ in range(2):
        builder.exchange(PINGED)
    url = serve(builder.close()).url + STREAM
    with httpx.stream("GET", url) as response:
        pieces = list(response.iter_raw())

    expected = hashlib.sha256(b"".join(PINGED)).hexdigest()

    assert hashlib.sha256(b"".join(pieces)).hexdigest() == expected
    assert hashlib.sha256(curl(url).stdout).hexdigest() == expected


def test_httpx_gets_the_recorded_chunks_one_by_one(builder, serve):
    """At the recorded speed, each chunk is there before the next one is sent."""
    builder.exchange([(60, chunk) for chunk in PINGED])
    with httpx.stream("GET", serve(builder.close(), speed=1).url + STREAM) as response:
        assert list(response.iter_raw()) == PINGED


@pytest.mark.parametrize(("ending", "status"), [(Ending.SERVICE_CLOSED, 18), (Ending.SERVICE_RESET, 56)])
def test_curl_fails_for_an_incomplete_response(builder, serve, ending, status):
    """Exit status 18 is a partial file, 56 a receive error."""
    builder.exchange(PINGED, ending=ending)

    done = curl(serve(builder.close()).url + STREAM)

    assert (done.returncode, done.stdout) == (status, b"".join(PINGED))


async def test_the_replay_runs_in_the_callers_loop_and_stays_readable(builder):
    builder.exchange(PINGED)
    builder.exchange(target="/never", headers=JSON)
    lines = []
    async with (
        serve_replay(builder.close(), TAPE, log=lines.append) as replay,
        httpx.AsyncClient(base_url=replay.url) as client,
    ):
        answers = await asyncio.gather(client.get(STREAM), client.get("/other"))

    assert sorted(answer.status_code for answer in answers) == [200, 501]
    assert [(served.method, served.exchange, served.status) for served in replay.served] == [("GET", 1, 200)]
    assert [miss.target for miss in replay.misses] == ["/other"]
    assert [(entry.number, entry.target) for entry in replay.unconsumed] == [(2, "/never")]
    assert sorted(lines) == ["GET /other → no match, 501", f"GET {STREAM} → exchange 1, 200"]


async def test_leaving_the_block_ends_open_streams(builder):
    builder.exchange(PINGED, ending=Ending.CLIENT_CLOSED)
    async with serve_replay(builder.close(), TAPE) as replay:
        reader, writer = await asyncio.open_connection(*replay.url.removeprefix("http://").split(":"))
        writer.write(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await reader.readuntil(b'\xa9"}}\r\n\r\n\r\n')
        began = time.monotonic()

    assert await reader.read() == b""
    assert time.monotonic() - began < 2  # not by a timeout
    writer.close()
