"""`wiretape import`: it detects the format of a file, makes a recording, and does not overwrite files."""

import os
import stat
import threading
from pathlib import Path

import pytest
from for_each import for_each
from invoke import invoke, succeed
from wiretape_process import run_wiretape

from wiretape.checking import check
from wiretape.observations import RequestStarted
from wiretape.recording import RecordingMetadata, RecordingSource, Writer, build_recording, open_recording
from wiretape.recording.formats import FORMATS, find_format
from wiretape.traffic_builder import TrafficBuilder

TAPE = """\
tape: 1
started: 2026-11-21T09:30:00.000000001Z
---
request: GET /v1/sessions/ses_1/events/stream
headers:
- Authorization: Bearer not-for-the-disk
events:
- data: {"id": "evt_1", "sequence": 1, "type": "session.status_idle"}
- text: 'data: not-for-the-disk'
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.tape").write_text(TAPE, "utf-8")
    return invoke


def test_the_recording_is_named_after_the_file_private_and_checked(run):
    result = run("import", "run.tape")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "run.db: 1 exchange, 1 stream, 7 findings, from a tape.\n"
    assert stat.S_IMODE(Path("run.db").stat().st_mode) == 0o600
    with open_recording("run.db") as recording:
        assert recording.info.started_unix_ns == 1_795_253_400_000_000_001
        assert {finding.code for finding in recording.findings()} == {"EVT004", "SSE002"}


def test_replacing_a_recording_removes_its_journal(run):
    """A killed recorder leaves a journal, which SQLite would apply to the new recording."""
    writer = Writer.create("killed.db", upstream="http://old")
    writer.feed([RequestStarted(1, 5, "", "GET", "http", "old", "/old", "HTTP/1.1", ())])
    writer.commit()
    for name in ("", "-wal", "-shm"):
        Path(f"run.db{name}").write_bytes(Path(f"killed.db{name}").read_bytes())
    writer.close()

    run("import", "run.tape", "--force")
    assert sorted(path.name for path in Path().iterdir()) == ["killed.db", "run.db", "run.tape"]
    with open_recording("run.db") as recording:
        assert [exchange.request.target for exchange in recording.exchanges()] == ["/v1/sessions/ses_1/events/stream"]


def test_a_recording_in_progress_is_not_replaced(run):
    writer = Writer.create("run.db", upstream="http://a")
    result = run("import", "run.tape", "--force")
    writer.close()
    assert (result.exit_code, result.stderr) == (2, "Error: Another process is recording to run.db.\n")
    with open_recording("run.db") as recording:
        assert recording.info.upstream == "http://a"
    assert sorted(path.name for path in Path().iterdir()) == ["run.db", "run.tape"]


def test_credentials_are_redacted(run):
    run("import", "run.tape")
    assert b"not-for-the-disk" not in Path("run.db").read_bytes()
    with open_recording("run.db") as recording:
        assert recording.info.redacted == 2


def test_the_name_of_a_file_does_not_matter(run):
    Path("run.tape").rename("notes.txt")
    succeed("import", "notes.txt", "--output", "made.db")
    har = run("export", "made.db", "--format", "har").stdout
    Path("tape.yaml").write_text(har, "utf-8")
    assert run("import", "tape.yaml", "-o", "again.db").stdout.endswith(", from a HAR file.\n")


@pytest.fixture
def pipe(tmp_path):
    """Return a function that writes to a named pipe as soon as somebody reads from it."""
    os.mkfifo(tmp_path / "pipe")
    writers = []

    def into(data: bytes):
        writers.append(threading.Thread(target=Path(tmp_path / "pipe").write_bytes, args=[data], daemon=True))
        writers[-1].start()
        return tmp_path / "pipe"

    yield into
    for writer in writers:
        writer.join(10)


def test_the_format_of_a_pipe_is_detected_from_its_content(run, pipe):
    succeed("import", "run.tape")
    har = run("export", "run.db", "--format", "har").stdout.encode()
    for data, description in ((TAPE.encode(), "a tape"), (har, "a HAR file"), (b"data: {}\n\n", "a raw event stream")):
        result = succeed("import", pipe(data), "--output", "piped.db", "--force")
        assert result.stdout.endswith(f"from {description}.\n")


def test_an_error_in_piped_data_names_the_pipe(run, pipe):
    path = pipe(TAPE.replace("request", "requst").encode())
    result = run("import", path, "--output", "run.db")
    assert result.stderr == f"Error: {path}, line 4: requst: unknown key; did you mean request?\n"
    nameless = "A pipe has no name: use --output to name the recording.\n"
    assert run("import", path).stderr.endswith(nameless)
    assert run("import", "-").stderr.endswith(nameless)
    assert not Path("run.db").exists()


def test_standard_input_is_imported(run):
    with Path("run.tape").open("rb") as tape:
        result = run_wiretape("import", "-", "-o", "run.db", stdin=tape)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "run.db: 1 exchange, 1 stream, 7 findings, from a tape.\n"


@for_each("kind", FORMATS, ids=lambda kind: kind.name)
def test_every_format_can_be_loaded(kind):
    assert find_format(kind.name) is kind
    assert not kind.reader().matches(b"")
    assert not kind.reader().matches(b"SQLite format 3\0")


@pytest.mark.parametrize(("name", "numbers"), [("tape", [1, 2]), ("har", [2])], ids=str)
def test_only_formats_that_name_the_service_show_that_a_creation_is_its_own(run, name, numbers):
    traffic = TrafficBuilder()
    traffic.request("POST", "/v1/sessions").respond(500, body=b"<html>")
    traffic.request("POST", "/v1/sessions/s/runs").respond(500, body=b"<html>")
    metadata = RecordingMetadata("http://service.test", 1_795_253_400_000_000_000)
    build_recording(RecordingSource(metadata, iter(traffic.observations())), Path("one.db"))
    succeed("export", "one.db", "--format", name, "--output", "one.file")
    assert run("import", "one.file", "--output", "two.db").exit_code == 0
    with open_recording("two.db") as recording:
        stored = list(recording.findings())
    assert stored == list(check("two.db").findings)
    assert [finding.exchange for finding in stored if finding.code == "ERR001"] == numbers
