"""Stored data survives kill -9 at any moment: no event or response that a client received is lost."""

import asyncio
import contextlib
import re
import shutil
import sqlite3
import tempfile
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wiretape_process import WiretapeProcess

from wiretape.contract import DELTA_TYPES
from wiretape.errors import InputError
from wiretape_replay.service.scenario_server import serve_scenario
from wiretape_replay.service.serve_options import ServeOptions

BUSY = """
title = "Many small steps"
pace = 0.002

[[run]]
steps = [{ repeat = 12, steps = [{ say = "One two three." }, { tool = "count", output = { counted = 3 } }] }]
"""
_PATIENCE_S = 45


class Killed:
    """A service in its own process, which is ended by kill -9."""

    def __init__(self, folder: Path) -> None:
        self.scenario = folder / "busy.toml"
        self.scenario.write_text(BUSY, "utf-8")
        self.data = folder / "service.db"
        self.process = None
        self.url = ""

    async def start(self) -> None:
        options = ("--listen", "127.0.0.1:0", "--data", self.data, "--no-config")
        log = self.scenario.with_name("log.txt")
        with log.open("w") as output:
            self.process = WiretapeProcess("serve", self.scenario, *options, stderr=output)
        async with asyncio.timeout(_PATIENCE_S):
            while not (listens := re.search(r" on (http://[^\s,]+)[\s,]", log.read_text("utf-8"))):
                assert self.process.poll() is None, log.read_text("utf-8")
                await asyncio.sleep(0.005)  # a pipe would have to be read all the time
        self.url = listens[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(_PATIENCE_S)


class World:
    """The events and responses that clients received so far."""

    def __init__(self) -> None:
        self.events = {}
        """By session path, the frames of its durable events by id, in order."""
        self.answers = []
        """Path, idempotency key and body of what was answered with success."""

    async def play(self, url, number) -> None:
        """Create sessions and runs, and read what they say, until the service is gone."""
        async with aiohttp.ClientSession(url, headers={"Authorization": "Bearer wiretape-key"}) as http:
            with contextlib.suppress(aiohttp.ClientError):
                session = await self._post(http, "/v1/sessions", f"s{number}")
                # The sessions from before go on, too.
                for path in [*self.events, f"/v1/sessions/{session['id']}"]:
                    self.events.setdefault(path, {})
                async with asyncio.TaskGroup() as readers:
                    for place, path in enumerate(self.events):
                        readers.create_task(self._read(http, path))
                        readers.create_task(self._run(http, path, f"r{number}-{place}"))

    async def _post(self, http, path, key):
        async with http.post(path, data=b"{}", headers={"Idempotency-Key": key}) as response:
            body = await response.read()
            if response.status != 201:
                assert response.status == 409, body
                return {}
            self.answers.append((path, key, body))
            return await response.json()

    async def _run(self, http, path, key):
        with contextlib.suppress(aiohttp.ClientError):
            await self._post(http, f"{path}/runs", key)

    async def _read(self, http, path):
        """Read a session from the last event on, as long as there is a service."""
        known = self.events[path]
        headers = {"Last-Event-ID": list(known)[-1]} if known else {}
        with contextlib.suppress(aiohttp.ClientError):
            async with http.get(f"{path}/events/stream?event_deltas=true", headers=headers) as response:
                assert response.status == 200, await response.text()
                async for frame in _frames(response):
                    sse_id = _id(frame)
                    if sse_id is not None:
                        assert sse_id not in known, "an event came again after its cursor"
                        known[sse_id] = frame


async def _frames(response):
    """The messages of a stream, byte for byte."""
    data = b""
    async for piece in response.content.iter_any():
        data += piece
        *whole, data = data.split(b"\n\n")
        for frame in whole:
            yield frame


def _id(frame):
    return next((line[4:].decode() for line in frame.split(b"\n") if line.startswith(b"id: ")), None)


@settings(max_examples=6)
@given(st.lists(st.floats(0, 0.4), min_size=1, max_size=3))
def test_kill_9_does_not_lose_anything_that_was_sent(moments):
    folder = Path(tempfile.mkdtemp())
    try:
        asyncio.run(_killed_at(moments, folder))
    finally:
        shutil.rmtree(folder)


async def _killed_at(moments, folder):
    service, world = Killed(folder), World()
    try:
        for number, seconds in enumerate(moments):
            await service.start()
            playing = asyncio.create_task(world.play(service.url, number))
            await asyncio.wait([playing], timeout=seconds)
            service.kill()
            await playing
        await service.start()
        await _check(service.url, world)
    finally:
        service.kill()


async def _check(url, world):
    """Every response is repeated byte for byte, and every cursor gets the events after it."""
    async with aiohttp.ClientSession(url, headers={"Authorization": "Bearer wiretape-key"}) as http:
        for path, key, body in world.answers:
            async with http.post(path, data=b"{}", headers={"Idempotency-Key": key}) as response:
                assert (response.status, await response.read()) == (201, body)
        for path, known in world.events.items():
            whole = await _replayed(http, path, None, len(known))
            assert whole == list(known.values()), "what was read before, from the beginning and in order"
            sequences = [frame.partition(b'"sequence":')[2].partition(b",")[0] for frame in whole]
            assert sequences == [b"%d" % number for number in range(1, len(whole) + 1)]
            for place, cursor in list(enumerate(known, 1))[:: max(1, len(known) // 5)]:
                assert await _replayed(http, path, cursor, len(known) - place) == whole[place:]


async def _replayed(http, path, cursor, count):
    """The first `count` durable events after a cursor."""
    headers = {} if cursor is None else {"Last-Event-ID": cursor}
    found = []
    async with asyncio.timeout(_PATIENCE_S), http.get(f"{path}/events/stream", headers=headers) as response:
        assert response.status == 200, await response.text()
        if count:
            async for frame in _frames(response):
                found.append(frame)
                if len(found) == count:
                    break
    return found


async def test_a_run_continues_after_a_restart(serve, tmp_path):
    """A client that was connected all the time gets the same stream as one that was not."""
    data = tmp_path / "service.db"
    async with serve("application-tool", virtual=True, data=data) as stage:
        session = await stage.session()
        stream = await stage.stream(session)
        run = await stage.run(session)
        before = await stream.until("agent.custom_tool_use")
        stream.close()
    async with serve("application-tool", virtual=True, data=data) as stage:
        assert (await stage.get(run)).json["status"] == "waiting_for_input"
        body = {"tool_call_id": before[-1]["content"]["tool_call_id"], "output": {"celsius": 3}}
        assert (await stage.post(f"{run}/resume", body, idem="k")).status == 200
        after = await stage.follow(session, cursor=before[-1]["id"])
    async with serve("application-tool", virtual=True, data=data) as stage:
        assert (await stage.post(f"{run}/resume", body, idem="k")).status == 200, "keys outlive the process"
        stored = await stage.follow(session)
    assert stored == [event for event in before + after if event["type"] not in DELTA_TYPES]


async def test_sessions_keep_the_scenario_they_were_created_with(serve, tmp_path):
    data = tmp_path / "service.db"
    async with serve("hello", virtual=True, data=data) as stage:
        session = await stage.session()
    async with serve("question", virtual=True, data=data) as stage:
        await stage.run(session)
        messages = [event for event in await stage.follow(session) if event["type"] == "message.completed"]
        assert messages[0]["content"][0]["text"].startswith("Hello, world!")


async def test_request_ids_are_not_reused_after_a_restart(serve, tmp_path):
    seen = set()
    for _ in range(3):
        async with serve(virtual=True, data=tmp_path / "service.db") as stage:
            seen.add((await stage.get("/nothing")).error["request_id"])
    assert len(seen) == 3


async def test_only_the_owner_and_one_service_can_use_the_file(serve, tmp_path):
    data = tmp_path / "service.db"
    async with serve(virtual=True, data=data):
        assert [path.stat().st_mode & 0o777 for path in tmp_path.glob("service.db*")] == [0o600] * 3
        with pytest.raises(InputError, match="in use by another `wiretape serve`"):
            await _begun(data)
    assert sorted(path.name for path in tmp_path.glob("service.db*")) == ["service.db"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda path: path.write_bytes(b"no database at all, but long enough" * 20),
            "not a `wiretape serve` data file",
        ),
        (lambda path: _database(path, "CREATE TABLE other (x)"), "not a `wiretape serve` data file"),
        (lambda path: path.mkdir(), "cannot be written: Is a directory"),
    ],
)
async def test_other_files_are_errors_of_one_sentence(tmp_path, make, words):
    make(tmp_path / "data")
    with pytest.raises(InputError, match=words):
        await _begun(tmp_path / "data")


async def test_data_of_another_seed_or_version_is_refused(serve, tmp_path):
    data = tmp_path / "service.db"
    async with serve(virtual=True, data=data, seed=4) as stage:
        session = await stage.session()
        await stage.run(session)
        await stage.follow(session)
    with pytest.raises(InputError, match="was created with --seed 4"):
        await _begun(data, seed=5)
    _database(data, "UPDATE event SET data = replace(data, 'Hello', 'Howdy')")
    with pytest.raises(InputError, match="choose another file for --data"):
        await _begun(data)
    _database(data, "PRAGMA user_version = 99")
    with pytest.raises(InputError, match="has format 99; this version of wiretape can only read format 1"):
        await _begun(data)


async def test_a_failed_write_gets_no_response(serve, tmp_path):
    """The connection ends instead: a client must not see data that is not stored."""
    data = tmp_path / "service.db"
    async with serve(virtual=True, data=data, checked=False) as stage:
        session = await stage.session()
        stage.service.sessions.data._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(aiohttp.ClientError):
            await stage.run(session)
        await asyncio.wait_for(stage.service.broken.wait(), _PATIENCE_S)
        with pytest.raises(aiohttp.ClientError):
            await stage.post("/v1/sessions")


def _database(path, statement):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


async def _begun(data, **options):
    async with serve_scenario("hello", ServeOptions(clock="virtual", data=data, **options)):
        pass
