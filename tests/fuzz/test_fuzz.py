"""Files and requests from strangers: changed copies of a stored corpus cause no unexpected error.

`make fuzz` tries WIRETAPE_FUZZ examples for each kind instead of a few.
"""

import http.client
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.checker import Checker
from wiretape.cli import wiretape
from wiretape.config import load_config
from wiretape.control_protocol import TOKEN_HEADER
from wiretape.errors import InputError
from wiretape.recording import build_recording, open_recording
from wiretape.recording.formats import find_format
from wiretape.sse import Parser
from wiretape_contracts.agent_sessions.stand_in.scenario_file import read_scenario
from wiretape_inspect.debugger.api_endpoints import DOCUMENTS, LINES, parse_query
from wiretape_inspect.report import baseline
from wiretape_replay import ReplayOptions, start_replay
from wiretape_replay.server_options import fault_script
from wiretape_replay.stand_in import ServeOptions

EXAMPLES = int(os.environ.get("WIRETAPE_FUZZ", "6"))
CORPUS = Path(__file__).with_name("corpus")
TOKENS = (
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\r\n",
    b"\n\n",
    b"-1",
    b"0",
    b"9" * 30,
    b"1e999",
    b"NaN",
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"[" * 300,
    b'{"a":' * 300,
    b'"\\ud800"',
    "\N{LINE SEPARATOR}\N{RIGHT-TO-LEFT OVERRIDE}".encode(),
    b"\x1b[2J",
    b"data: {}\n\n",
    b"x" * 5000,
)


def seeds(kind: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / kind).iterdir())]


@st.composite
def changed(draw, kind: str) -> bytes:
    """A file of the corpus after a few changes."""
    known = seeds(kind)
    data = draw(st.sampled_from(known))
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        change = draw(st.sampled_from(("cut", "token", "bytes", "flip", "repeat", "other")))
        if change == "cut":
            data = data[:start] + data[end:]
        elif change == "token":
            data = data[:start] + draw(st.sampled_from(TOKENS)) + data[draw(st.sampled_from((start, end))) :]
        elif change == "bytes":
            data = data[:start] + draw(st.binary(max_size=8)) + data[end:]
        elif change == "flip" and start < len(data):
            data = data[:start] + bytes([data[start] ^ 1 << draw(st.integers(0, 7))]) + data[start + 1 :]
        elif change == "repeat":
            data = data[:end] + data[start:end] * draw(st.integers(1, 3)) + data[end:]
        else:
            other = draw(st.sampled_from(known))
            data = data[:start] + other[draw(st.integers(0, len(other))) :]
    return data


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def read_all(path: Path) -> None:
    """Read everything in a recording, and check it."""
    with open_recording(path) as recording:
        checker = Checker()
        for seen in recording.observations():
            checker.feed(seen)
        checker.finish()
        list(recording.events())
        list(recording.findings())


def parse(data: bytes, _: Path) -> None:
    parser = Parser()
    half = len(data) // 2
    frames = [*parser.feed(data[:half]), *parser.feed(data[half:]), *parser.close()]
    assert b"".join(frame.raw for frame in frames) == data


def import_as(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        (folder / "file").write_bytes(data)
        (folder / "run.db").unlink(missing_ok=True)
        build_recording(find_format(name).reader().read(folder / "file"), folder / "run.db")
        read_all(folder / "run.db")

    return read


def open_directly(data: bytes, folder: Path) -> None:
    (folder / "file").write_bytes(data)
    read_all(folder / "file")


def reader(read: Callable[[Path], object], name: str) -> Callable[[bytes, Path], None]:
    def load(data: bytes, folder: Path) -> None:
        (folder / name).write_bytes(data)
        read(folder / name)

    return load


KINDS: dict[str, Callable[[bytes, Path], object]] = {
    "parser": parse,
    "stream": import_as("sse"),
    "tape": open_directly,
    "har": import_as("har"),
    "flows": import_as("flows"),
    "scenario": reader(read_scenario, "file.toml"),
    "faults": reader(fault_script, "file.toml"),
    "service": reader(lambda path: ServeOptions(service=path), "file.toml"),
    "config": reader(load_config, "wiretape.toml"),
    "baseline": reader(baseline.load, "known.json"),
}


def run_examples(kind: str, check: Callable[[bytes], object]) -> None:
    """Check examples; an InputError, which is one sentence, is fine."""

    @settings(max_examples=EXAMPLES)
    @given(changed(kind))
    def examples(data: bytes) -> None:
        with suppress(InputError):
            check(data)

    for data in seeds(kind):
        check(data)
    examples()


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_read_or_refused(kind, folder):
    run_examples(kind, lambda data: KINDS[kind](data, folder))


@pytest.mark.hypothesis
def test_a_changed_recording_is_read_or_refused_and_can_be_recovered(folder):
    build_recording(find_format("tape").reader().read(min((CORPUS / "tape").iterdir())), folder / "whole.db")
    whole = (folder / "whole.db").read_bytes()

    @settings(max_examples=EXAMPLES)
    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 7)), min_size=1, max_size=20))
    def examples(flips: list[tuple[int, int]]) -> None:
        damaged = bytearray(whole)
        for at, bit in flips:
            damaged[at] ^= 1 << bit
        (folder / "damaged.db").write_bytes(damaged)
        with suppress(InputError):
            read_all(folder / "damaged.db")
        arguments = ["recover", str(folder / "damaged.db"), "--output", str(folder / "new.db"), "--force"]
        result = CliRunner().invoke(wiretape, arguments)
        assert "wiretape failed because of a bug" not in result.output
        if result.exit_code == 0:
            read_all(folder / "new.db")

    examples()


@pytest.fixture(scope="module")
def recording(folder) -> Path:
    """The first tape of the corpus."""
    shutil.copy(min((CORPUS / "tape").iterdir()), folder / "run.tape")
    return folder / "run.tape"


@pytest.mark.hypothesis
def test_a_changed_request_to_the_debugger_is_answered_or_refused(recording):
    with open_recording(recording) as opened:

        def ask(data: bytes) -> None:
            name, _, query = data.decode("latin-1").partition("?")
            endpoint = {**DOCUMENTS, **LINES}.get(name)
            if endpoint is None:
                return
            request = make_mocked_request("GET", f"/api/{name}?{query}".encode().decode("latin-1"))
            with suppress(InputError):
                found = endpoint(opened, **parse_query(request, endpoint))
                if name in LINES:
                    list(found)

        run_examples("debugger", ask)


@pytest.mark.hypothesis
def test_a_changed_control_request_is_answered_or_refused(recording):
    with start_replay(recording, ReplayOptions()) as replay:
        address = replay.url.removeprefix("http://")

        def ask(data: bytes) -> None:
            head, _, body = data.partition(b"\n")
            method, _, name = head.decode("latin-1").partition(" ")
            if name.startswith(("wait", "events")):  # they take their time
                return
            connection = http.client.HTTPConnection(address, timeout=30)
            try:
                connection.request(method, f"/_wiretape/{name}", body, {TOKEN_HEADER: replay.token})
            except (ValueError, http.client.InvalidURL):  # http.client does not send it
                return
            assert connection.getresponse().status < 500
            connection.close()

        run_examples("control", ask)
