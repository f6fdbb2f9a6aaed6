"""`wiretape import`: it tells what a file is, makes a recording of it, and spares what is there."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.observations import RequestStarted
from wiretape.recording import Writer, open_recording
from wiretape.recording.formats import FORMATS, find_format

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
    return lambda *arguments: CliRunner().invoke(wiretape, [str(each) for each in arguments])


def test_a_recording_is_made_beside_it(run):
    """It is called like the file, can be read by its owner only, and was judged."""
    told = run("import", "run.tape")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == "run.db: 1 exchange, 1 stream, 7 findings, from a tape.\n"
    assert stat.S_IMODE(Path("run.db").stat().st_mode) == 0o600
    with open_recording("run.db") as recording:
        assert recording.info.started_unix_ns == 1_795_253_400_000_000_001
        assert {finding.code for finding in recording.findings()} == {"EVT004", "SSE002"}


def test_a_recording_that_is_replaced_leaves_nothing_of_itself(run):
    """A recorder that was killed leaves a file beside, which SQLite would take for part of the new recording."""
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


def test_a_recording_that_is_being_made_is_not_replaced(run):
    writer = Writer.create("run.db", upstream="http://a")
    told = run("import", "run.tape", "--force")
    writer.close()
    assert (told.exit_code, told.stderr) == (2, "Error: run.db is being recorded to by another process.\n")
    with open_recording("run.db") as recording:
        assert recording.info.upstream == "http://a"
    assert sorted(path.name for path in Path().iterdir()) == ["run.db", "run.tape"]


def test_credentials_are_replaced(run):
    run("import", "run.tape")
    assert b"not-for-the-disk" not in Path("run.db").read_bytes()
    with open_recording("run.db") as recording:
        assert recording.info.redacted == 2


def test_what_it_is_called_does_not_matter(run):
    Path("run.tape").rename("notes.txt")
    assert run("import", "notes.txt", "--output", "made.db").exit_code == 0
    lines = run("export", "made.db", "--format", "jsonl").stdout
    Path("tape.yaml").write_text(lines, "utf-8")
    told = run("import", "tape.yaml", "-o", "again.db")
    assert told.stdout == "again.db: 1 exchange, 1 stream, 7 findings, from JSON lines.\n"
    assert run("export", "again.db", "--format", "jsonl").stdout == lines


def test_findings_that_came_along_are_not_found_twice(run):
    run("import", "run.tape")
    lines = [json.loads(line) for line in run("export", "run.db", "--format", "jsonl").stdout.splitlines()]
    kept = [line for line in lines if line.get("code") != "EVT004"]
    Path("run.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in kept), "utf-8")
    assert run("import", "run.jsonl", "--force").stdout == "run.db: 1 exchange, 1 stream, 1 finding, from JSON lines.\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "There is no file nothing."),
        (["."], ". cannot be read: Is a directory."),
        (["run.db"], "run.db is a recording already, or another database."),
        (["odd.txt"], "odd.txt looks like nothing that can be imported ("),
        (["empty.txt"], "empty.txt is empty."),
        (
            ["odd.txt", "--format", "jsonl"],
            "odd.txt, line 1: invalid JSON: unexpected character, expected a JSON value (column 1).",
        ),
        (["run.tape"], "run.db exists: give --output another name, or --force to replace it."),
        (["run.tape", "-o", "run.tape", "--force"], "run.tape is also an input file: give --output another name."),
        (["run.tape", "-o", "missing/run.db"], "missing/run.db cannot be written: there is no folder missing."),
        (["wrong.tape", "--output", "run.db", "--force"], "wrong.tape, line 3: request: it has to be a method"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence_and_spares_what_is_there(run, arguments, says):
    run("import", "run.tape")
    before = Path("run.db").read_bytes()
    Path("odd.txt").write_text("once upon a time\n", "utf-8")
    Path("empty.txt").touch()
    Path("wrong.tape").write_text("tape: 1\n---\nrequest: GET\n", "utf-8")
    told = run("import", *arguments)
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith(f"Error: {says}")
    assert told.stderr.count("\n") == 1
    assert Path("run.db").read_bytes() == before
    given = {"empty.txt", "odd.txt", "run.db", "run.tape", "wrong.tape"}
    assert {path.name for path in Path().iterdir()} == given


@pytest.fixture
def pipe(tmp_path):
    """A named pipe, and what writes into it as soon as somebody reads."""
    os.mkfifo(tmp_path / "pipe")
    writers = []

    def into(data: bytes):
        writers.append(threading.Thread(target=Path(tmp_path / "pipe").write_bytes, args=[data], daemon=True))
        writers[-1].start()
        return tmp_path / "pipe"

    yield into
    for writer in writers:
        writer.join(10)


def test_a_pipe_is_imported_by_what_comes_through_it(run, pipe):
    assert run("import", "run.tape").exit_code == 0
    lines = run("export", "run.db", "--format", "jsonl").stdout.encode()
    for data, called in ((TAPE.encode(), "a tape"), (lines, "JSON lines"), (b"data: {}\n\n", "a raw event stream")):
        told = run("import", pipe(data), "--output", "piped.db", "--force")
        assert told.exit_code == 0, told.output
        assert told.stdout.endswith(f"from {called}.\n")


def test_what_is_wrong_with_what_comes_through_a_pipe_is_said_of_the_pipe(run, pipe):
    path = pipe(TAPE.replace("request", "requst").encode())
    told = run("import", path, "--output", "run.db")
    assert told.stderr == f"Error: {path}, line 4: requst: there is no such key of an exchange, did you mean request?\n"
    assert run("import", path).stderr.endswith(
        "What comes through a pipe has no name: give --output one for the recording.\n"
    )
    assert run("import", "-").stderr.endswith(
        "What comes through a pipe has no name: give --output one for the recording.\n"
    )
    assert not Path("run.db").exists()


def test_standard_input_is_imported(run):
    with Path("run.tape").open("rb") as tape:
        program = [sys.executable, "-m", "wiretape", "import", "-", "-o", "run.db"]
        told = subprocess.run(program, stdin=tape, capture_output=True, text=True, check=False, timeout=50)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == "run.db: 1 exchange, 1 stream, 7 findings, from a tape.\n"


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_every_format_is_there(kind):
    """What the table names can be loaded, and what a format writes it knows again."""
    assert find_format(kind.name) is kind
    assert kind.reads or kind.writes
    if kind.reads:
        assert not kind.reader().matches(b"")
        assert not kind.reader().matches(b"SQLite format 3\0")
    if kind.writes:
        assert kind.writer().write
