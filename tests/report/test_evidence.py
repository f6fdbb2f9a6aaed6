"""The frames at the locations of findings."""

import pytest

from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect.report import check_recording, finding_location
from wiretape_inspect.report.evidence import Mark
from wiretape_inspect.report.finding_location import locate
from wiretape_inspect.report.text_format import _evidence_lines, _margin

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
    monkeypatch.setattr(finding_location, "_MAX_STREAMS", most)
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
        assert (one.before and one.before.number) == (event - 1 or None)


@pytest.mark.parametrize(
    ("line", "value", "shown", "underline"),
    [
        ('data: {"id":"x"}', "x", 'data: {"id":"x"}', "             ^"),
        ("data: " + "a" * 60 + " here " + "b" * 60, "here", "…aaaaaaaaaaaaa here bbbbbbbbb…", "               ^^^^"),
        ("data: 日本 here", "here", "data: 日本 here", "           ^^^^"),
        ("data: 日本 here", "日本", "data: 日本 here", "      ^^^^"),
        ("here " + "b" * 60, "here " + "b" * 60, "here bbbbbbbbbbbbbbbbbbbbbbbb…", "^" * 30),
    ],
)
def test_what_a_finding_is_about_is_underlined_and_visible(line, value, shown, underline):
    mark = Mark(1, line.index(value), line.index(value) + len(value))
    finding = Finding("SEQ001", Severity.ERROR, Party.SERVICE, 1, 1, 1, 0, 1, "Expected 2, got 1.")
    lines = list(map(str, _evidence_lines([("1", "event: x"), ("", line)], mark, 30, finding)))

    assert [text[len(_margin("")) :] for text in lines] == ["event: x", shown, underline]
