"""What is found live is what is found in the recording."""

import pytest

from wiretape.recording import open_recording
from wiretape.rules import Checker, Severity
from wiretape.rules.vectors import vectors
from wiretape_inspect.report import check_recording

GAP = """
[[exchange]]
request = "GET /v1/sessions/ses_1/events/stream?event_deltas=true"
ending = "service-closed"
part = [
    { text = "event: message.delta\\nid: x\\ndata: {\\"type\\":\\"message.delta\\"}\\n\\nevent: mess" },
    { lost = 777 },
    { text = "age\\n\\ndata: {}\\n\\nevent: cut", after = 3 },
]

[[exchange]]
request = "GET /v1/sessions/ses_1/events/stream"
at = 2
status = 404
ending = "open"
body = "{}"
"""


def live(seen):
    checker = Checker()
    found = [finding for item in seen for finding in checker.feed(item)] + checker.finish()
    return found, checker.verdicts()


def place(f):
    return f.exchange, f.event or 0, f.byte_offset or 0, f.code, f.time_ns, f.message


def places(findings):
    return sorted(place(f) for f in findings)


def recorded(path):
    with open_recording(path) as recording:
        report = check_recording(recording, str(path))
    return list(report.findings), {code: tally.verdict for code, tally in report.outcomes.tallies.items()}


@pytest.mark.parametrize("family", sorted({vector.code[:3] for vector in vectors()}))
def test_the_vectors_of_a_family_give_the_same_live_and_recorded(record, together, family):
    """In their order; that each gives the same by itself is tested with the rules."""
    seen = together([vector for vector in vectors() if vector.code.startswith(family)], piece=5)
    live_findings, live_verdicts = live(seen)
    findings, verdicts = recorded(record(seen))
    assert sorted(findings, key=place) == sorted(live_findings, key=place)
    assert verdicts == live_verdicts


def test_gaps_and_open_exchanges_give_the_same_live_and_recorded(record, traffic):
    live_findings, live_verdicts = live(traffic(GAP))
    findings, verdicts = recorded(record(GAP))
    assert [f.code for f in findings] == ["DUR004", "EVT011", "EVT011", "REC001", "SSE006", "SSE002"]
    assert places(findings) == places(live_findings)
    assert verdicts == live_verdicts
    assert verdicts["ERR001"] == "inconclusive"


def test_a_report_counts_exchanges_and_events(all_vectors, all_vectors_file):
    with open_recording(all_vectors_file) as recording:
        report = check_recording(recording, "run.db")
    assert report.outcomes.exchanges == max(item.exchange for item in all_vectors)
    assert report.outcomes.events > 60
    assert report.severities[Severity.ERROR] == sum(f.severity is Severity.ERROR for f in report.findings)
    assert report.exercised == len(report.outcomes.tallies)
