"""What is found live is what is found in the recording; findings are kept outside of memory, in order and unchanged."""

import random
import threading
import tracemalloc
from collections import Counter

import pytest

from wiretape.checker import Checker
from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape.rules.vectors import vectors
from wiretape_inspect.report import check_recording
from wiretape_inspect.report.recording_report import FindingStore

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


def place(found):
    return found.exchange, found.event or 0, found.byte_offset or 0, found.code, found.message, found.time_ns


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
    assert sorted(findings, key=place) == sorted(live_findings, key=place)
    assert verdicts == live_verdicts
    assert verdicts["ERR001"] == "inconclusive"


def test_a_report_counts_exchanges_and_events(all_vectors, all_vectors_file):
    with open_recording(all_vectors_file) as recording:
        report = check_recording(recording, "run.db")
    assert report.outcomes.exchanges == max(item.exchange for item in all_vectors)
    assert report.outcomes.events > 60
    assert report.severities[Severity.ERROR] == sum(f.severity is Severity.ERROR for f in report.findings)
    assert report.exercised == len(report.outcomes.tallies)


def finding(number, code="SEQ001", *, event=1, offset=0, exchange=1, message="Expected `é\\ud800`, got 0."):
    severity = list(Severity)[number % 3]
    return Finding(code, severity, list(Party)[number % 3], exchange, event, number, offset, number, message)


def many(number):
    chance = random.Random(number)
    for one in range(number):
        place = {"event": chance.choice([None, *range(1, 40)]), "offset": chance.choice([None, *range(20)])}
        code, message = chance.choice(["SEQ001", "SEQ002", "ERR001"]), chance.choice("äzZ")
        yield finding(one, code, exchange=chance.randint(1, 4), message=message, **place)


@pytest.mark.parametrize("number", [0, 1, 5_000])
def test_stored_findings_are_sorted_and_otherwise_unchanged(number):
    given = list(many(number))
    kept = FindingStore(iter(given))
    assert list(kept) == sorted(given, key=lambda found: (found.time_ns, *place(found)))
    assert len(kept) == number
    assert kept.counts == Counter((found.code, found.severity) for found in given)


def test_another_thread_can_release_them():
    kept = [FindingStore(many(2))]
    # A warning about an exception in a finalizer fails the test.
    releasing = threading.Thread(target=kept.clear)
    releasing.start()
    releasing.join()


def test_memory_does_not_grow_with_the_findings():
    FindingStore(many(10))
    tracemalloc.start()
    kept = FindingStore(finding(number, message=f"Expected {number}.") for number in range(10_000))
    shown = sum(1 for _ in kept)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert shown == 10_000
    assert peak < 1_000_000


def test_suppressed_findings_have_a_reason_and_are_not_new():
    given = [finding(number) for number in range(5)]
    kept = FindingStore(given)
    kept.suppress(iter([(1, "a"), (3, "")]))
    assert list(kept.reasons()) == [None, "a", None, "", None]
    assert list(kept.new()) == [given[0], given[2], given[4]]
    assert list(kept) == given
    assert kept.suppressed_counts == Counter((given[at].code, given[at].severity) for at in (1, 3))
