"""An invalid tape or JSON lines file is reported in one sentence with its line and key."""

import tomllib
from pathlib import Path

import pytest

from wiretape.errors import InputError
from wiretape.recording import open_recording
from wiretape.recording.formats.tape import WRITER

CASES = tomllib.loads(Path(__file__).with_name("invalid_tapes.toml").read_text("utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.get("tape", case.get("exchange")))
def test_an_error_in_a_tape_names_the_line_and_the_key(case, tmp_path):
    path = tmp_path / "run.tape"
    path.write_text(case.get("tape") or f"tape: 1\n---\n{case['exchange']}", "utf-8")
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path}, {case['message']}"


HEAD = '{"kind": "recording", "format": 1, "upstream": "http://a", "started_unix_ns": 0}\n'
REQUEST = (
    '{"kind": "request", "exchange": 1, "time_ns": 1, "client": "::1", "method": "GET", "scheme": "http", '
    '"authority": "a", "target": "/", "http_version": "HTTP/1.1", "headers": []}\n'
)
FINDING = (
    '{"kind": "finding", "exchange": 1, "time_ns": 2, "code": "SSE001", "severity": "error", "side": "service", '
    '"message": "wrong"}'
)
LINES = {
    '{"kind": "recording", "format": 2, "upstream": "http://a", "started_unix_ns": 0}': (
        "line 1: format: version 2 is not supported; this version of wiretape reads versions up to 1."
    ),
    '{"kind": "recording", "fromat": 1}': 'line 1: fromat: unknown key where kind = "recording"; did you mean format?',
    HEAD + "{": "line 2: invalid JSON: unexpected end of data (column 2).",
    HEAD + "[]": "line 2: expected a table, got a list.",
    HEAD + "{}": "line 2: kind is missing.",
    HEAD + HEAD: "line 2: kind: all lines of kind recording or capture must come before the others.",
    HEAD + '{"kind": "requests"}': (
        "line 2: kind: expected one of recording, capture, request, request-ended, response, chunk, lost, ended, "
        "finding, got 'requests'; did you mean request?"
    ),
    HEAD + '{"kind": "request-ended", "exchange": 1, "time_ns": 1}': (
        "line 2: exchange: exchange 1 has no request before this line, or has ended."
    ),
    HEAD + REQUEST + '\n{"kind": "request-ended", "exchange": 1, "time_ns": 1}': (
        "line 4: time_ns: expected a time later than 1, the time of the previous line."
    ),
    HEAD + REQUEST + '{"kind": "ended", "exchange": 1, "time_ns": 2, "ending": "timeout"}': (
        "line 3: ending: expected one of complete, service-closed, service-reset, service-unreachable, "
        "service-invalid, client-closed, timed-out, proxy-stopped, open, got 'timeout'; did you mean timed-out?"
    ),
    HEAD + REQUEST + '{"kind": "chunk", "exchange": 1, "time_ns": 2, "txt": "a"}': (
        'line 3: txt: unknown key where kind = "chunk"; did you mean text?'
    ),
    HEAD + REQUEST + '{"kind": "chunk", "exchange": 1, "time_ns": 2}': "line 3: a chunk needs either text or base64.",
    HEAD + REQUEST + '{"kind": "chunk", "exchange": 1, "time_ns": 2, "base64": "?"}': (
        "line 3: base64: invalid base64."
    ),
    HEAD + REQUEST + '{"kind": "lost", "exchange": 1, "time_ns": 2, "count": -1, "why": ""}': (
        "line 3: count: expected a whole number of at least 0, got -1."
    ),
    HEAD + REQUEST.replace("[]", '[["a", 1]]'): "line 2: headers[0][1]: expected a string, got 1.",
    HEAD + REQUEST.replace("[]", '[["a", "→"]]'): (
        "line 2: headers: each character stands for one byte, so none can be above U+00FF."
    ),
    HEAD.replace('_ns": 0', f'_ns": {2**64 - 1}'): (
        f"line 1: started_unix_ns: expected a whole number of at most {2**63 - 1}, got {2**64 - 1}."
    ),
    HEAD.replace("0}", f'0, "redacted": {2**63 - 1}}}'): (
        f"line 1: redacted: expected a whole number of at most {2**53}, got {2**63 - 1}."
    ),
    HEAD + REQUEST + REQUEST.replace(': 1, "c', ': 2, "c'): (
        "line 3: exchange: expected a number greater than 1, the number of the previous request."
    ),
    HEAD + REQUEST + '{"kind": "chunk", "exchange": 1, "time_ns": 2, "text": "ab"}\n'
    '{"kind": "chunk", "exchange": 1, "time_ns": 3, "start": 1, "text": "b"}': (
        "line 4: start: expected at least 2, where the previous bytes end."
    ),
    HEAD + REQUEST + FINDING.replace('exchange": 1', 'exchange": 2'): (
        "line 3: exchange: exchange 2 has no request before this line."
    ),
    HEAD + REQUEST + FINDING.replace("error", "fatal"): (
        "line 3: severity: expected one of error, warning, note, got 'fatal'."
    ),
    HEAD + REQUEST + '{"kind": "response", "exchange": 1, "time_ns": 2, "status": 1000}': (
        "line 3: status: expected a whole number of at most 999, got 1000."
    ),
}


@pytest.mark.parametrize("text", LINES)
def test_an_error_in_json_lines_names_the_line_and_the_key(text, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path}, {LINES[text]}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"tape: 1\n---\nrequest: GET /\nevents:\n- data: {}\n- text: \xff\n", "line 6: not UTF-8."),
        (b"tape: 1\n---\nrequest: GET /\nbody: " + b"[" * 500_000, "line 4: "),
        (
            b"tape: 1\n---\nrequest: GET /\nevents:\n- data: " + b"[" * 500 + b"]" * 500,
            "line 5: nested too deeply.",
        ),
    ],
    ids=["not UTF-8", "deep and truncated", "deep"],
)
def test_a_hostile_tape_is_reported_in_one_sentence(data, message, tmp_path):
    path = tmp_path / "run.tape"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


BEYOND = {
    "run.jsonl": [
        HEAD + REQUEST.replace(': 1, "c', f': {2**63 - 1}, "c'),
        HEAD + REQUEST + f'{{"kind": "lost", "exchange": 1, "time_ns": 2, "count": {2**63 - 1}, "why": ""}}',
        HEAD + REQUEST + f'{{"kind": "chunk", "exchange": 1, "time_ns": 2, "start": {2**63 - 1}, "text": "a"}}',
    ],
    "run.tape": [
        "tape: 1\n---\nrequest: GET /\nat: 999999999\nbody:\n" + "- {after: 999999999, text: x}\n" * 8,
        f"tape: 1\n---\nrequest: GET /\nbody:\n- lost: {2**62}\n- lost: {2**62}\n",
    ],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BEYOND.items() for text in texts])
def test_a_number_that_is_too_large_for_a_recording_is_reported(name, text, tmp_path):
    """SQLite stores integers of 64 bits, and times count nanoseconds since 1970."""
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"xchange 1 (ends after the year 2200|is longer than a recording)"):
        open_recording(path)


def test_a_line_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    """A file may consist of a single line: only as much of it is read as may be held in memory."""
    monkeypatch.setattr("wiretape.recording.formats.jsonl.MAX_HELD_BYTES", 300)
    path = tmp_path / "run"
    path.write_text(HEAD + REQUEST + " " * 301, "utf-8")
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path}, line 3: the line is longer than 0 MiB."


def test_a_tape_that_is_too_large_is_neither_read_nor_written(tmp_path, monkeypatch):
    path = tmp_path / "run.tape"
    path.write_text(f"tape: 1\n---\nrequest: GET /\nbody: {'x' * 2**20}\n", "utf-8")
    with open_recording(path) as recording:
        monkeypatch.setattr("wiretape.recording.formats.tape.writer.MAX_TAPE_BYTES", 2**20)
        with pytest.raises(InputError) as caught:
            list(WRITER.write(recording, None))
    message = "is too large for a tape: the limit is 1 MiB. Use the jsonl format instead."
    assert str(caught.value) == f"{path} {message}"
    monkeypatch.setattr("wiretape.recording.formats.tape.tape_yaml.MAX_TAPE_BYTES", 2**20)
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path} {message.replace('the jsonl format', 'JSON lines')}"


def test_an_upstream_that_is_not_a_url_is_kept(tmp_path):
    """The upstream of a recording can be any text."""
    path = tmp_path / "run.tape"
    path.write_text('tape: 1\nupstream: "http://[a"\n---\nrequest: GET /\n', "utf-8")
    with open_recording(path) as recording:
        assert recording.exchange(1).request.authority == "http://[a"
        assert b"upstream: http://[a\n" in b"".join(WRITER.write(recording, None))


def test_an_invalid_file_leaves_no_temporary_files(tmp_path, monkeypatch):
    """The temporary recording is deleted, also if reading stopped half way."""
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
