"""An invalid tape is reported in one sentence with its line and key."""

import tomllib
from pathlib import Path

import pytest

from wiretape.errors import InputError
from wiretape.recording import open_recording
from wiretape.recording.formats.tape_writer import write

CASES = tomllib.loads(Path(__file__).with_name("invalid_tapes.toml").read_text("utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.get("tape", case.get("exchange")))
def test_an_error_in_a_tape_names_the_line_and_the_key(case, tmp_path):
    path = tmp_path / "run.tape"
    path.write_text(case.get("tape") or f"tape: 1\n---\n{case['exchange']}", "utf-8")
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path}, {case['message']}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"tape: 1\n---\nrequest: GET /\nevents:\n- data: {}\n- text: \xff\n", "line 6: not UTF-8."),
        (b"tape: 1\n---\nrequest: GET /\nbody: " + b"[" * 500_000, "line 4: "),
        (b"tape: 1\n---\nrequest: GET /\nevents:\n- data: " + b"[" * 500 + b"]" * 500, "line 5: nested too deeply."),
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


def test_joined_deltas_that_stand_for_too_much_together_are_refused(tmp_path):
    joined = f"- deltas: {{a: '', b: {'x' * 2**20}}}\n  at: /a\n  texts:\n  - text: ''\n    sizes: [[0, 40]]\n"
    path = tmp_path / "run.tape"
    path.write_text(f"tape: 1\n---\nrequest: GET /\nevents:\n{joined}---\nrequest: GET /\nevents:\n{joined}", "utf-8")
    with pytest.raises(InputError, match=r"line 16: events\[0\]\.texts\[0\]: the joined deltas of a tape can have"):
        open_recording(path)


BEYOND = {
    "run.tape": [
        "tape: 1\n---\nrequest: GET /\nafter: 999999999\nbody:\n" + "- {after: 999999999, text: x}\n" * 8,
        f"tape: 1\n---\nrequest: GET /\nbody:\n- lost: {2**62}\n- lost: {2**62}\n",
    ]
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BEYOND.items() for text in texts])
def test_a_number_that_is_too_large_for_a_recording_is_reported(name, text, tmp_path):
    """SQLite stores integers of 64 bits, and times count nanoseconds since 1970."""
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"xchange 1 (ends after the year 2200|is longer than a recording)"):
        open_recording(path)


def test_a_tape_that_is_too_large_is_neither_read_nor_written(tmp_path, monkeypatch):
    path = tmp_path / "run.tape"
    path.write_text(f"tape: 1\n---\nrequest: GET /\nbody: {'x' * 2**20}\n", "utf-8")
    with open_recording(path) as recording:
        monkeypatch.setattr("wiretape.recording.formats.tape_writer.MAX_TAPE_BYTES", 2**20)
        with pytest.raises(InputError) as caught:
            list(write(recording, None))
    message = f"{path} is too large for a tape: the limit is 1 MiB."
    assert str(caught.value) == f"{message} Use `wiretape trim` to keep part of it."
    monkeypatch.setattr("wiretape.recording.formats.tape_yaml.MAX_TAPE_BYTES", 2**20)
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{message} Split it into several tapes."


def test_an_upstream_that_is_not_a_url_is_kept(tmp_path):
    """The upstream of a recording can be any text."""
    path = tmp_path / "run.tape"
    path.write_text('tape: 1\nupstream: "http://[a"\n---\nrequest: GET /\n', "utf-8")
    with open_recording(path) as recording:
        assert recording.exchange(1).request.authority == "http://[a"
        assert b"upstream: http://[a\n" in b"".join(write(recording, None))


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
