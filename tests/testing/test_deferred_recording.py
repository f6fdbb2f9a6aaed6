"""Deferred recordings: the file is created when it is needed."""

import time

import pytest

from wiretape.observations import BytesArrived, RequestStarted, Side
from wiretape.recording import Writer, open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_replay.client_verdict.client_checker import DeferredWriter


def contents(path):
    """Bytes with their boundaries and times, everything else as it is, findings, and the end."""
    with open_recording(path) as recording:
        seen = list(recording.observations())
        # Each recording has fingerprints of its own.
        rest = [each for each in seen if not isinstance(each, RequestStarted | BytesArrived)]
        runs = [each for each in seen if isinstance(each, BytesArrived)]
        pieces = [(run.exchange, piece) for run in runs for piece in zip(run.ends, run.times, strict=True)]
        findings = [finding.code for finding in recording.findings()]
        return (rest, pieces, b"".join(run.data for run in runs)), findings, recording.info.ended_ns


@pytest.mark.parametrize("created_after", [0, 1, 5, None])
def test_the_file_contains_everything_whenever_it_is_created(tmp_path, recording, seen, created_after):
    path = tmp_path / "late.db"
    writer, found = DeferredWriter(path, upstream="http://service.test"), []
    for number, observation in enumerate(seen):
        if number == created_after:
            writer.create_file()
        writer.feed([observation])
        found.append(f"RULE{number}")
        writer.add_findings([Finding(found[-1], Severity.ERROR, Party.CLIENT, 1, None, None, None, number, "Wrong.")])
        assert path.exists() == (created_after is not None and number >= created_after)
    writer.commit()
    writer.close(3_000_000_000)
    writer.create_file()
    writer.create_file()
    assert contents(path)[0] == contents(recording)[0]
    assert contents(path)[1:] == (found, 3_000_000_000)


def test_findings_are_stored_after_their_exchanges(tmp_path, seen, monkeypatch):
    """A reader may open the file at any time."""
    path, stored, add_findings = tmp_path / "late.db", [], Writer.add_findings

    def add(self, findings):
        with open_recording(path) as recording:
            stored.extend(exchange.number for exchange in recording.exchanges())
        add_findings(self, findings)

    monkeypatch.setattr(Writer, "add_findings", add)
    writer = DeferredWriter(path, upstream="http://service.test")
    writer.add_findings([Finding("RULE1", Severity.ERROR, Party.CLIENT, 1, None, None, None, 1, "Wrong.")])
    writer.feed(seen)
    writer.create_file()
    assert stored == sorted({each.exchange for each in seen})
    with open_recording(path) as recording:
        assert [finding.code for finding in recording.findings()] == ["RULE1"]
    writer.close()


def test_no_file_is_created_if_it_is_not_needed(tmp_path, seen):
    writer = DeferredWriter(tmp_path / "late.db", upstream="http://service.test")
    writer.feed(seen)
    writer.commit()
    assert not writer.derive()
    writer.close(3_000_000_000)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_created_if_memory_would_not_suffice(tmp_path, seen):
    writer = DeferredWriter(tmp_path / "late.db", upstream="http://service.test")
    writer.feed(seen[:3])
    start, at = 0, seen[2].time_ns
    for _ in range(17):
        data = bytes(1024 * 1024)
        at += 1
        writer.feed([BytesArrived(1, Side.RESPONSE, start, data, (start + len(data),), (at,))])
        start += len(data)
    assert (tmp_path / "late.db").exists()
    writer.close(at + 1)
    with open_recording(tmp_path / "late.db") as recording:
        assert recording.exchange(1).response_bytes == 17 * 1024 * 1024


def test_the_start_time_is_that_of_the_traffic(tmp_path, seen, monkeypatch):
    began_s = time.time() - 3600
    with monkeypatch.context() as earlier:
        earlier.setattr(time, "time_ns", lambda: round(began_s * 1e9))
        writer = DeferredWriter(tmp_path / "late.db", upstream="http://service.test")
    writer.feed(seen)
    writer.create_file()
    writer.close(None)
    with open_recording(tmp_path / "late.db") as recording:
        assert round(recording.info.started.timestamp() - began_s, 3) == 0
