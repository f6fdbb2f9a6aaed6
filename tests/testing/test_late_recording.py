"""Recordings that become a file when somebody wants it."""

import pytest

from wiretape.observations import BytesArrived, RequestStarted, Side
from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_replay.client_verdict.deferred_recording import DeferredWriter


def held(path):
    """Bytes with their boundaries and times, everything else as it is, findings, and the end."""
    with open_recording(path) as recording:
        seen = list(recording.observations())
        # Each recording has fingerprints of its own.
        rest = [each for each in seen if not isinstance(each, RequestStarted | BytesArrived)]
        runs = [each for each in seen if isinstance(each, BytesArrived)]
        pieces = [(run.exchange, piece) for run in runs for piece in zip(run.ends, run.times, strict=True)]
        findings = [finding.code for finding in recording.findings()]
        return (rest, pieces, b"".join(run.data for run in runs)), findings, recording.info.ended_ns


@pytest.mark.parametrize("made_after", [0, 1, 5, None])
def test_whenever_the_file_is_made_it_holds_everything(tmp_path, recording, seen, made_after):
    path = tmp_path / "late.db"
    late, found = DeferredWriter(path, upstream="http://service.test"), []
    for number, observation in enumerate(seen):
        if number == made_after:
            late.make()
        late.feed([observation])
        found.append(f"RULE{number}")
        late.add_findings([Finding(found[-1], Severity.ERROR, Party.CLIENT, 1, None, None, None, number, "Wrong.")])
        assert path.exists() == (made_after is not None and number >= made_after)
    late.commit()
    late.close(3_000_000_000)
    late.make()
    late.make()
    assert held(path)[0] == held(recording)[0]
    assert held(path)[1:] == (found, 3_000_000_000)


def test_a_file_that_nobody_wants_is_not_made(tmp_path, seen):
    late = DeferredWriter(tmp_path / "late.db", upstream="http://service.test")
    late.feed(seen)
    late.commit()
    assert (late.has_backlog, list(late.derive())) == (False, [])
    late.close(3_000_000_000)
    assert list(tmp_path.iterdir()) == []


def test_more_than_memory_should_hold_goes_to_the_disk(tmp_path, seen):
    late = DeferredWriter(tmp_path / "late.db", upstream="http://service.test")
    late.feed(seen[:3])
    start, at = 0, seen[2].time_ns
    for _ in range(17):
        data = bytes(1024 * 1024)
        at += 1
        late.feed([BytesArrived(1, Side.RESPONSE, start, data, (start + len(data),), (at,))])
        start += len(data)
    assert (tmp_path / "late.db").exists()
    late.close(at + 1)
    with open_recording(tmp_path / "late.db") as recording:
        assert recording.exchange(1).response_bytes == 17 * 1024 * 1024


def test_its_time_is_that_of_what_was_seen(tmp_path, seen, monkeypatch):
    late = DeferredWriter(tmp_path / "late.db", upstream="http://service.test")
    late._started_unix_ns -= 3_600_000_000_000  # as if the test had taken an hour
    late.feed(seen)
    late.make()
    late.close(None)
    with open_recording(tmp_path / "late.db") as recording:
        assert round(recording.info.started.timestamp() - late._started_unix_ns / 1e9, 3) == 0
