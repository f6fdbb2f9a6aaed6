"""`wiretape.testing`, for other test runners than pytest."""

import contextlib
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import wiretape.testing
import wiretape_replay
from wiretape.checker import Checker
from wiretape.errors import InputError
from wiretape.testing import ClientError, replay, serve

STREAM = "/v1/sessions/s1/events/stream"


def read(url: str) -> bytes:
    """Read the stream to its end, without a cursor."""
    with urlopen(Request(url + STREAM, headers={"Authorization": "Bearer k"}), timeout=45) as response:  # noqa: S310
        return b"".join(response.readline() for _ in range(12))


def request_without_key(url: str) -> None:
    with pytest.raises(HTTPError) as error:
        urlopen(Request(url + "/v1/sessions", b""), timeout=45)  # noqa: S310
    error.value.close()


def read_twice(url: str) -> None:
    """Read the stream twice, like a client that resumes without its cursor."""
    read(url)
    read(url)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The names in the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: [path.name for path in sorted(tmp_path.rglob("*"))]


def test_a_correct_client_leaves_no_files(recording, folders):
    with replay(recording) as service:
        assert b"id: e3" in read(service.url)
        assert len(service.requests) == 1
    assert folders() == []


def test_a_broken_rule_is_an_assertion_error(recording, folders):
    with pytest.raises(ClientError) as error, replay(recording) as service:
        read_twice(service.url)
    assert isinstance(error.value, AssertionError)
    lines = str(error.value).splitlines()
    assert lines[:3] == [
        "The client broke rule CLI002 (1 finding).",
        "",
        "CLI002 resumed-from-wrong-event  error in the client",
    ]
    assert not hasattr(error.value, "__notes__")
    assert Path(lines[-1].removeprefix("The traffic is recorded in ").removesuffix(".")).is_file()
    assert folders()[1:] == ["replayed.db"]


def test_an_exception_of_the_block_gets_the_report_as_a_note(recording, folders):
    with pytest.raises(HTTPError) as error, replay(recording) as service:
        urlopen(f"{service.url}/v1/sessions/other", timeout=45)  # noqa: S310 - and without a key
    error.value.close()
    (note,) = error.value.__notes__
    assert note.startswith("The client broke rule CLI001 (1 finding).")
    assert "\nRequests:\nGET /v1/sessions/other → 401" in note
    assert folders()[1:] == ["replayed.db"]


def test_an_invalid_recording_or_option_leaves_no_files(recording, folders):
    with pytest.raises(InputError, match=r"none\.db") as error, replay(recording.with_name("none.db")):
        pass
    assert not hasattr(error.value, "__notes__")
    with pytest.raises(InputError, match="did you mean speed"), replay(recording, sped=1):
        pass
    assert folders() == []


def test_a_stand_in_checks_its_client(folders):
    with serve("hello") as service:
        with urlopen(Request(service.url + "/v1/sessions", b"", service.headers), timeout=45) as response:  # noqa: S310
            assert response.status == 201
        service.control.advance(60)
        assert service.findings == []
    assert folders() == []
    with pytest.raises(ClientError, match="The client broke rule CLI001"), serve("hello") as service:
        request_without_key(service.url)


@pytest.mark.parametrize("fail_on", ["error", "never"])
def test_an_error_of_the_checks_fails_the_test_unless_nothing_may(recording, folders, monkeypatch, fail_on):
    def break_down(self, seen):
        raise KeyError("e1\n")

    monkeypatch.setattr(Checker, "feed", break_down)
    fails = contextlib.nullcontext() if fail_on == "never" else pytest.raises(ClientError)
    with fails as error, replay(recording, fail_on=fail_on) as service:
        read(service.url)
    if error is not None:
        failed, recorded = str(error.value).splitlines()
        assert failed == "wiretape's checks failed, so there may be more findings: KeyError: 'e1\\n'."
        assert recorded.startswith("The traffic is recorded in ")


def test_unittest_reports_a_broken_rule_as_a_failure(recording, folders):
    class Case(unittest.TestCase):
        def setUp(self):
            self.service = self.enterContext(replay(recording))

        def test_client(self):
            read_twice(self.service.url)

    result = unittest.TestResult()
    Case("test_client").run(result)
    assert result.errors == []
    ((_, text),) = result.failures
    assert "The client broke rule CLI002 (1 finding)." in text


def test_importing_wiretape_testing_does_not_import_the_replay():
    program = "import sys, wiretape.testing; assert not {'wiretape_replay', 'aiohttp'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    for module in (wiretape.testing, wiretape_replay):
        with pytest.raises(AttributeError, match="has no attribute 'repaly'"):
            _ = module.repaly
