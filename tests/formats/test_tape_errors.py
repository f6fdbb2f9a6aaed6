"""What is wrong in a file of another form is told in one sentence, with its line and key."""

import tomllib
from pathlib import Path

import pytest

from wiretape.errors import InputError
from wiretape.recording import open_recording
from wiretape.recording.formats.tape import WRITER

CASES = tomllib.loads(Path(__file__).with_name("wrong_tapes.toml").read_text("utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.get("tape", case.get("exchange")))
def test_what_is_wrong_in_a_tape_is_told_with_line_and_key(case, tmp_path):
    path = tmp_path / "run.tape"
    path.write_text(case.get("tape") or f"tape: 1\n---\n{case['exchange']}", "utf-8")
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path}, {case['says']}"


HEAD = '{"kind": "recording", "format": 1, "upstream": "http://a", "started_unix_ns": 0}\n'
ASKED = (
    '{"kind": "request", "exchange": 1, "time_ns": 1, "client": "::1", "method": "GET", "scheme": "http", '
    '"authority": "a", "target": "/", "http_version": "HTTP/1.1", "headers": []}\n'
)
LINES = {
    '{"kind": "recording", "format": 2, "upstream": "http://a", "started_unix_ns": 0}': (
        "line 1: format: it is 2, this wiretape reads up to 1: use a newer wiretape."
    ),
    HEAD + "[]": "line 2: it has to be a JSON object.",
    HEAD + '{"kind": "requests"}': "line 2: kind: there is no kind requests, did you mean request?",
    HEAD + '{"kind": "ended", "exchange": 1, "time_ns": 1}': (
        "line 2: exchange: no request of exchange 1 stands before it, or it has ended."
    ),
    HEAD + ASKED + '\n{"kind": "request-ended", "exchange": 1, "time_ns": 1}': (
        "line 4: time_ns: it has to be above 1, that of the line before."
    ),
    HEAD + ASKED + '{"kind": "chunk", "exchange": 1, "time_ns": 2, "txt": "a"}': (
        "line 3: txt: there is no such key, did you mean text?"
    ),
    HEAD + ASKED + '{"kind": "chunk", "exchange": 1, "time_ns": 2}': (
        "line 3: a chunk has a text or base64, one of them."
    ),
    HEAD + ASKED + '{"kind": "chunk", "exchange": 1, "time_ns": 2, "base64": "?"}': "line 3: base64: it is no base64.",
    HEAD + ASKED + '{"kind": "lost", "exchange": 1, "time_ns": 2, "count": -1, "why": ""}': (
        "line 3: count: it has to be a whole number, 0 or more."
    ),
    HEAD + ASKED.replace("[]", '[["a", 1]]'): (
        "line 2: headers: it has to be a list of [name, value], each character standing for one byte."
    ),
    HEAD.replace('_ns": 0', f'_ns": {2**64 - 1}'): f"line 1: started_unix_ns: it has to be {2**63 - 1} at most.",
    HEAD.replace("0}", f'0, "redacted": {2**63 - 1}}}'): f"line 1: redacted: it has to be {2**53} at most.",
    HEAD + ASKED + ASKED.replace(': 1, "c', ': 2, "c'): (
        "line 3: exchange: it has to be above 1, that of the request before."
    ),
    HEAD + ASKED + '{"kind": "chunk", "exchange": 1, "time_ns": 2, "text": "ab"}\n'
    '{"kind": "chunk", "exchange": 1, "time_ns": 3, "start": 1, "text": "b"}': (
        "line 4: start: it has to be a whole number, 2 or more."
    ),
    HEAD + ASKED + '{"kind": "finding", "exchange": 2, "code": "SSE001", "severity": "error", "side": "service"}': (
        "line 3: exchange: no request of exchange 2 stands before it."
    ),
    HEAD + ASKED + '{"kind": "response", "exchange": 1, "time_ns": 2, "status": 1000}': (
        "line 3: status: it has to be 999 at most."
    ),
}


@pytest.mark.parametrize("text", LINES)
def test_what_is_wrong_in_json_lines_is_told_with_line_and_key(text, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path}, {LINES[text]}"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"tape: 1\n---\nrequest: GET /\nevents:\n- data: {}\n- text: \xff\n", "line 6: it is no UTF-8."),
        (b"tape: 1\n---\nrequest: GET /\nbody: " + b"[" * 500_000, "line 4: "),
        (
            b"tape: 1\n---\nrequest: GET /\nevents:\n- data: " + b"[" * 500 + b"]" * 500,
            "line 5: events.data: it is nested too deeply.",
        ),
    ],
    ids=["no UTF-8", "cut off, and deep", "deep"],
)
def test_hostile_tapes_are_one_sentence(data, says, tmp_path):
    path = tmp_path / "run.tape"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 500


BEYOND = {
    "run.jsonl": [
        HEAD + ASKED.replace(': 1, "c', f': {2**63 - 1}, "c'),
        HEAD + ASKED + f'{{"kind": "lost", "exchange": 1, "time_ns": 2, "count": {2**63 - 1}, "why": ""}}',
        HEAD + ASKED + f'{{"kind": "chunk", "exchange": 1, "time_ns": 2, "start": {2**63 - 1}, "text": "a"}}',
    ],
    "run.tape": [
        "tape: 1\n---\nrequest: GET /\nat: 999999999\nbody:\n" + "- {after: 999999999, text: x}\n" * 8,
        f"tape: 1\n---\nrequest: GET /\nbody:\n- lost: {2**62}\n- lost: {2**62}\n",
    ],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BEYOND.items() for text in texts])
def test_numbers_that_no_recording_can_hold_are_one_sentence(name, text, tmp_path):
    """SQLite keeps integers of 64 bits, and times are counted from 1970 in nanoseconds."""
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"xchange 1 (lasts until after the year 2200|is longer than a recording)"):
        open_recording(path)


@pytest.mark.parametrize(
    ("module", "text", "line"),
    [("jsonl_reading", HEAD + ASKED + " " * 301, 3), ("tape.scanning", f"tape: 1\n---\ndetail: {'a' * 300}\n", 3)],
)
def test_a_line_that_memory_cannot_hold_is_not_read(module, text, line, tmp_path, monkeypatch):
    """A file may be one line of any length: no more of it is read than may be held."""
    monkeypatch.setattr(f"wiretape.recording.formats.{module}.MAX_HELD_BYTES", 300)
    path = tmp_path / "run"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path}, line {line}: it is longer than 0 MiB."


def test_an_upstream_that_is_no_url_goes_into_a_tape_and_back(tmp_path):
    """A recording's upstream is any text."""
    path = tmp_path / "run.tape"
    path.write_text('tape: 1\nupstream: "http://[a"\n---\nrequest: GET /\n', "utf-8")
    with open_recording(path) as recording:
        assert recording.exchange(1).request.authority == "http://[a"
        assert b"upstream: http://[a\n" in b"".join(WRITER.write(recording, None))


def test_a_file_that_is_wrong_leaves_nothing_behind(tmp_path, monkeypatch):
    """The temporary recording goes, also where reading stopped half way."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    path = tmp_path / "run.tape"
    path.write_text("tape: 1\n---\nrequest: GET /\nevents:\n- data: {}\n- dat: {}\n", "utf-8")
    with pytest.raises(InputError):
        open_recording(path)
    path.write_text("tape: 1\n---\nrequest: GET /\nevents:\n- data: {}\n", "utf-8")
    with open_recording(path) as recording:
        assert [exchange.number for exchange in recording.exchanges()] == [1]
        assert list((tmp_path / "tmp").iterdir()) == []
