"""Findings are kept outside of memory: in order, complete, and as they were."""

import random
import threading
import tracemalloc
from collections import Counter

import pytest

from wiretape.rules import Finding, Party, Severity
from wiretape_inspect.report.recording_report import FindingStore


def finding(number, code="SEQ001", *, event=1, offset=0, exchange=1, message="Expected `é\\ud800`, got 0."):
    severity = list(Severity)[number % 3]
    return Finding(code, severity, list(Party)[number % 3], exchange, event, number, offset, number, message)


def many(number):
    chance = random.Random(number)
    for one in range(number):
        event = chance.choice([None, *range(1, 40)])
        offset = chance.choice([None, *range(20)])
        code = chance.choice(["SEQ001", "SEQ002", "ERR001"])
        yield finding(
            one, code, event=event, offset=offset, exchange=chance.randint(1, 4), message=chance.choice("äzZ")
        )


def place(found):
    return found.time_ns, found.exchange, found.event or 0, found.byte_offset or 0, found.code, found.message


@pytest.mark.parametrize("number", [0, 1, 5_000])
def test_stored_findings_are_sorted_and_otherwise_unchanged(number):
    given = list(many(number))
    kept = FindingStore(iter(given))
    assert list(kept) == sorted(given, key=place)
    assert len(kept) == number
    assert kept.counts == Counter((found.code, found.severity) for found in given)


def test_stored_findings_can_be_iterated_twice_at_once():
    kept = FindingStore(many(50))
    assert list(zip(kept, kept, strict=True)) == [(found, found) for found in kept]


def test_another_thread_can_release_it():
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
