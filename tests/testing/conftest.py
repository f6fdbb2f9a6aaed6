"""A project of a user: a recording, a client, and tests to run with pytest."""

import shutil
import sqlite3
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio.plugin
from wire_bytes import durable_event

# A run of pytest in this process removes its imports afterwards, and some modules cannot be imported twice.
import wiretape.recording.formats.tape_reader  # noqa: F401
import wiretape_inspect.commands.report  # noqa: F401
import wiretape_replay.channel.log_builder
import wiretape_replay.testing.checked_servers
import wiretape_replay.testing.plugin
from wiretape.traffic_builder import TrafficBuilder

_INI = """
[pytest]
filterwarnings = error
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""
_CLIENT = """
import http.client
from urllib.parse import urlsplit

STREAM = "/v1/sessions/s1/events/stream"
KEY = {"Authorization": "Bearer key-1"}


def get(url, target="/v1/sessions/other", headers=KEY):
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=45)
    try:
        connection.request("GET", target, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def read(url, events=3, cursor=None, deltas=False):
    "Read a number of durable events of the stream, then disconnect; return their ids."
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=45)
    ids = []
    try:
        cursor = {"Last-Event-ID": cursor} if cursor else {}
        connection.request("GET", STREAM + ("?event_deltas=true" if deltas else ""), headers=KEY | cursor)
        response = connection.getresponse()
        while len(ids) < events and (line := response.readline()):
            if line.startswith(b"id: "):
                ids.append(line[4:].decode().strip())
        if ids:
            response.readline(), response.readline()  # its data, and the blank line
        response.close()
    finally:
        connection.close()
    return ids
"""


@pytest.fixture(scope="session")
def traffic() -> TrafficBuilder:
    """A stream of three events, and another exchange a second later."""
    traffic = TrafficBuilder(key="key-1")
    stream = traffic.request("GET", "/v1/sessions/s1/events/stream")
    stream.respond_stream(headers={"Transfer-Encoding": "chunked"})
    for number in (1, 2, 3):
        stream.send(durable_event(number, "session.error"))
    stream.end()
    traffic.wait(1)
    traffic.request("GET", "/v1/sessions/other").respond(headers={"Content-Length": "2"}, json={})
    return traffic


@pytest.fixture(scope="session")
def seen(traffic) -> list:
    return traffic.observations()


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory, traffic) -> Path:
    return traffic.write(tmp_path_factory.mktemp("recorded") / "run.db")


class Project:
    """The tests of a user's project, and runs of them."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.base = pytester.path / "base"

    def file(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")

    def run(self, tests: str, *options: str, subprocess: bool = False, name: str = "test_it.py") -> pytest.RunResult:
        """Run tests that can use `pytest` and the client; their temporary folders are in `base`."""
        self.file(name, "import pytest\nfrom client import *\n\n" + textwrap.dedent(tests))
        return self.pytest(*options, subprocess=subprocess)

    def pytest(self, *options: str, subprocess: bool = False) -> pytest.RunResult:
        """Run all tests, or those that `options` name; in this process, only with our plugin and that of asyncio."""
        options = (f"--basetemp={self.base}", "-pno:cacheprovider", *options)
        if not subprocess:
            plugins = [pytest_asyncio.plugin, wiretape_replay.testing.plugin]
            return self.pytester.runpytest_inprocess("--disable-plugin-autoload", *options, plugins=plugins)
        # Older versions of anyio's plugin warn under new versions of pytest.
        without = ["cov", *([] if "anyio" in options else ["anyio"])]
        return self.pytester.runpytest_subprocess(*(f"-pno:{plugin}" for plugin in without), *options)

    @property
    def kept(self) -> list[Path]:
        """The recordings that were kept."""
        return sorted(self.base.rglob("*.db"))

    def findings(self, path: Path) -> list[str]:
        with closing(sqlite3.connect(path)) as connection, connection:
            return [code for (code,) in connection.execute("SELECT code FROM finding WHERE side = 'client'")]


@pytest.fixture
def project(pytester: pytest.Pytester, recording: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    shutil.copy(recording, pytester.path / "run.db")
    pytester.makefile(".ini", pytest=_INI)
    pytester.makepyfile(client=_CLIENT)
    pytester.syspathinsert()
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=":")
    monkeypatch.setenv("COLUMNS", "200")
    # The inner runs must not inherit the options of this run.
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    return Project(pytester)
