"""The frames at the locations of findings."""

import pytest

from wiretape.recording import open_recording
from wiretape_inspect.report import check_recording, evidence
from wiretape_inspect.report.evidence import locate

STREAMS = 5


EVENT = r'{ text = "data: {%d:%d}\n\n: x\r\n", after = 1 }'
EXCHANGE = """
[[exchange]]
request = "GET /v1/sessions/s%d/events/stream"
at = %f
part = [%s]
"""


def interleaved():
    """Streams that take turns: each event of each stream has a finding, and its number as data."""
    parts = {stream: ", ".join(EVENT % (stream, event) for event in (1, 2, 3)) for stream in range(1, STREAMS + 1)}
    return "".join(EXCHANGE % (stream, stream / 100, part) for stream, part in parts.items())


@pytest.mark.parametrize("most", [1, 2, STREAMS])
def test_findings_of_interleaved_streams_are_located_with_few_streams_open(record, monkeypatch, most):
    monkeypatch.setattr(evidence, "_MAX_STREAMS", most)
    with open_recording(record(interleaved())) as recording:
        found = list(check_recording(recording, "run.db").findings)
        located = list(locate(recording, found))
        backwards = list(locate(recording, reversed(found)))[::-1]

    assert [finding.time_ns for finding in found] == sorted(finding.time_ns for finding in found)
    exchanges = [finding.exchange for finding in found]
    assert exchanges != sorted(exchanges), "they take turns"
    for one in (*located, *backwards):
        event = one.finding.event
        assert f"data: {{{one.finding.exchange}:{event}}}".encode() in one.frame.seen.frame.raw
        assert one.frame.line == 3 * event - 2
        assert (one.before and one.before.seen.event) == (event - 1 or None)
