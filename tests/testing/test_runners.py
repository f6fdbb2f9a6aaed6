"""`wiretape.testing`, for runners that are not pytest."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request as Question
from urllib.request import urlopen

import pytest

import wiretape.testing
from wiretape.errors import InputError
from wiretape.testing import ClientError, replay

STREAM = "/v1/sessions/s1/events/stream"


def read(url: str) -> bytes:
    """Read the stream to its end, without a cursor."""
    with urlopen(Question(url + STREAM, headers={"Authorization": "Bearer k"}), timeout=45) as answer:  # noqa: S310
        return b"".join(answer.readline() for _ in range(12))


def read_twice(url: str) -> None:
    """As a client that reconnects without its cursor."""
    read(url)
    read(url)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Where recordings are kept."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: [path.name for path in sorted(tmp_path.rglob("*"))]


def test_a_client_in_good_order_leaves_nothing(recording, folders):
    with replay(recording) as service:
        assert b"id: e3" in read(service.url)
        assert len(service.requests) == 1
    assert folders() == []


def test_findings_are_an_assertion_that_failed(recording, folders):
    with pytest.raises(ClientError) as error, replay(recording) as service:
        read_twice(service.url)
    assert isinstance(error.value, AssertionError)
    lines = str(error.value).splitlines()
    assert lines[:3] == [
        "The client broke CLI002 (1 finding).",
        "",
        "CLI002 resumed-from-wrong-event  error of the client",
    ]
    assert not hasattr(error.value, "__notes__")
    assert Path(lines[-1].removeprefix("What passed is recorded in ").removesuffix(".")).is_file()
    assert folders()[1:] == ["replayed.db"]


def test_an_exception_of_the_blocks_own_is_told_what_the_client_did(recording, folders):
    with pytest.raises(HTTPError) as error, replay(recording) as service:
        urlopen(f"{service.url}/v1/other", timeout=45)  # noqa: S310 - and without a key
    error.value.close()
    (note,) = error.value.__notes__
    assert note.startswith("The client broke CLI001 (1 finding).")
    assert "\nRequests:\nGET /v1/other → 401" in note
    assert folders()[1:] == ["replayed.db"]


def test_what_cannot_be_played_leaves_nothing(recording, folders):
    with pytest.raises(InputError, match=r"none\.db") as error, replay(recording.with_name("none.db")):
        pass
    assert not hasattr(error.value, "__notes__")
    with pytest.raises(InputError, match="did you mean speed"), replay(recording, sped=1):
        pass
    assert folders() == []


def test_unittest_takes_it_as_a_failure_of_the_test(recording, folders):
    class Case(unittest.TestCase):
        def setUp(self):
            self.service = self.enterContext(replay(recording))

        def test_client(self):
            read_twice(self.service.url)

    result = unittest.TestResult()
    Case("test_client").run(result)
    assert result.errors == []
    ((_, text),) = result.failures
    assert "The client broke CLI002 (1 finding)." in text


def test_the_library_knows_it_by_name_only():
    program = "import sys, wiretape.testing; assert not {'wiretape_replay', 'aiohttp'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with pytest.raises(AttributeError, match="has no attribute 'repaly'"):
        _ = wiretape.testing.repaly
