"""Requests that an import invents are marked in the recording, and rules about requests do not judge them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from invoke import succeed

from wiretape.checking import check
from wiretape.recording import open_recording

DELTA = 'event: message.delta\ndata: {"type":"message.delta","run_id":"r","delta":{"text":"a"}}\n\n'
URL = "http://service.test/v1/sessions/s/events/stream"
HAR = Path(__file__).with_name("data") / "invented.har"


@pytest.fixture(params=["sse", "har"])
def imported(request, tmp_path):
    """A recording of a stream whose request is not in the imported file."""
    file, recording = tmp_path / f"long.{request.param}", tmp_path / "run.db"
    file.write_text(DELTA if request.param == "sse" else HAR.read_text("utf-8"))
    succeed("import", file, "--output", recording, *(["--url", URL] if request.param == "sse" else []))
    return recording


def is_invented(path):
    with open_recording(path) as recording:
        (exchange,) = recording.exchanges()
        (request, *_) = recording.observations()
    assert exchange.request == request
    return request.is_invented


def test_an_invented_request_is_not_judged(imported):
    assert is_invented(imported)
    succeed("report", imported, "--no-config", "--fail-on", "note")
    verdicts = check(imported).verdicts
    assert {verdicts[code] for code in ("AUTH001", "CLI001", "DUR007")} == {"not-exercised"}
    assert verdicts["EVT001"] == "pass"


@pytest.mark.parametrize("form", ["tape", "har"])
def test_the_mark_survives_export_and_import(imported, tmp_path, form):
    exported, again = tmp_path / f"again.{form}", tmp_path / "again.db"
    succeed("export", imported, "--format", form, "--output", exported)
    succeed("import", exported, "--output", again)
    assert is_invented(again)


def test_a_recorded_request_without_headers_is_not_invented(imported):
    with closing(sqlite3.connect(imported)) as database, database:
        database.execute("UPDATE exchange SET request_headers = '[]'")
    assert not is_invented(imported)
    assert {finding.code for finding in check(imported).findings} == {"AUTH001", "CLI001", "DUR007"}
