"""`wiretape merge`: merging and conflicts."""

import tempfile
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invoke import succeed

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer, open_recording

SECOND = 1_000_000_000
STARTED = 1_700_000_000 * SECOND


def exchange(
    number=1, at=1.0, *, body=b": a\n", target="/v1/sessions/s1/events/stream", took=1.0, headers=(), asked=()
):
    """An exchange with a request at a time, a response a while later, and an end."""
    now = round(at * SECOND)
    answered = now + round(took * SECOND)
    answer = (("Content-Type", "text/event-stream"), *headers)
    yield RequestStarted(number, now, "::1", "GET", "http", "svc", target, "HTTP/1.1", tuple(asked))
    yield RequestEnded(number, now + 10)
    yield ResponseStarted(number, answered, 200, "OK", "HTTP/1.1", answer)
    yield BytesArrived(number, Side.RESPONSE, 0, body, (len(body),), (answered + 10,))
    yield ExchangeEnded(number, answered + 20, Ending.COMPLETE, "over")


@pytest.fixture
def merged(run, tmp_path):
    """Merge files; return the output and the path."""

    def merged(*files):
        result = succeed("merge", *files, "--output", tmp_path / "both.db")
        return result.output, tmp_path / "both.db"

    return merged


@given(st.integers(0, 3), st.data())
@settings(max_examples=8)
def test_merging_the_parts_of_a_recording_gives_the_recording(parts, stored_conversation, seed, data):
    with tempfile.TemporaryDirectory() as folder:
        whole = stored_conversation(seed)
        numbers = sorted({seen.exchange for seen in parts.read(whole)})
        owners = data.draw(st.lists(st.integers(0, 2), min_size=len(numbers), max_size=len(numbers)))
        files = []
        for owner in sorted(set(owners)):
            chosen = [number for number, its in zip(numbers, owners, strict=True) if its == owner]
            files.append(Path(folder, f"{owner}.db"))
            options = [word for number in chosen for word in ("--exchange", number)]
            succeed("trim", whole, *options, "-o", files[-1])
        if len(files) < 2:
            return

        succeed("merge", *data.draw(st.permutations(files)), "-o", Path(folder, "both.db"))
        with open_recording(whole) as one, open_recording(Path(folder, "both.db")) as other:
            assert parts.singles(other) == parts.singles(one)
            assert parts.findings(other) == parts.findings(one)
            assert other.info.upstream == one.info.upstream
            assert other.info.started_unix_ns == one.info.started_unix_ns
            assert other.info.redacted == one.info.redacted
            assert other.captures() == one.captures()


def test_exchanges_are_renumbered_in_wall_clock_order(merged, parts, tmp_path):
    late = parts.stored([*exchange(1, 1), *exchange(2, 9)], tmp_path / "late.db", started=STARTED + 4 * SECOND)
    early = parts.stored([*exchange(1, 1, target="/x"), *exchange(2, 7)], tmp_path / "early.db", started=STARTED)

    output, both = merged(late, early)

    assert "late.db: 1 → 2, 2 → 4\n" in output
    assert "early.db: 1 → 1, 2 → 3\n" in output
    with open_recording(both) as recording:
        assert recording.info.started_unix_ns == STARTED
        assert recording.info.ended_ns is not None
        asked = [(each.number, each.request.time_ns / SECOND) for each in recording.exchanges()]
    assert asked == [(1, 1), (2, 5), (3, 7), (4, 13)]


def test_equal_times_are_pushed_apart_and_the_rules_run_again(merged, parts, tmp_path):
    one = parts.stored(exchange(1, 1), tmp_path / "one.db")
    two = parts.stored(exchange(1, 1, target="/v1/sessions/s2/events/stream"), tmp_path / "two.db")

    _, both = merged(one, two)

    times = [seen.time_ns for seen in parts.read(both)]
    assert len(times) == 10
    assert times == sorted(set(times))


def test_traffic_that_two_proxies_recorded_is_reported(merged, parts, tmp_path):
    outer = parts.stored(exchange(1, 1.0, took=1.0, body=b": a\n" * 9), tmp_path / "outer.db")
    inner = parts.stored(exchange(1, 1.1, took=0.8, body=b": a\n" * 9), tmp_path / "inner.db")

    output, _ = merged(outer, inner)

    assert "Exchange 1 (outer.db 1) and exchange 2 (inner.db 1) look like the same traffic" in output
    assert "contradict" not in output


def test_impossible_response_times_are_reported_as_contradictory_clocks(merged, parts, tmp_path):
    outer = parts.stored(exchange(1, 1.0, took=1.0), tmp_path / "outer.db")
    inner = parts.stored(exchange(1, 1.5, took=0.8), tmp_path / "inner.db")

    output, _ = merged(outer, inner)

    assert (
        "the request of exchange 1 (outer.db 1) is the earlier one, so its response should be the later one; "
        "it is 300 ms earlier" in output
    )


def test_two_clients_with_different_responses_are_not_duplicates(merged, parts, tmp_path):
    one = parts.stored(exchange(1, 1.0, asked=[("Last-Event-ID", "a")]), tmp_path / "one.db")
    two = parts.stored(exchange(1, 1.1, asked=[("Last-Event-ID", "b")]), tmp_path / "two.db")
    three = parts.stored(exchange(1, 1.2, asked=[("Last-Event-ID", "a")], body=b": b\n"), tmp_path / "three.db")

    assert "same traffic" not in merged(one, two, three)[0]


def test_contradictory_clocks_are_found_by_the_date_header(merged, parts, tmp_path):
    for name, date in (("one", 0), ("two", 7)):
        headers = [("Date", formatdate(STARTED / SECOND + 2 + date, usegmt=True))]
        parts.stored(exchange(1, 1.0, target=f"/{name}", headers=headers), tmp_path / f"{name}.db")

    output, _ = merged(tmp_path / "one.db", tmp_path / "two.db")

    assert "according to the Date headers of svc, the clock of one.db is about 7.0 s ahead of that of two.db" in output


@pytest.mark.parametrize(("days", "is_reported"), [(364, False), (365, True), (20_000, True)])
def test_recordings_that_are_years_apart_are_reported(merged, parts, tmp_path, days, is_reported):
    """For example a tape without a date, which would make the merged recording half a century long."""
    one = parts.stored(exchange(1, 1), tmp_path / "one.db")
    Writer.create(tmp_path / "two.db", upstream="http://a", started_unix_ns=STARTED + days * 86_400 * SECOND).close(0)

    output, _ = merged(tmp_path / "two.db", one)

    assert (f"two.db began {days:,} days after {one} (a tape" in output) == is_reported


def test_different_upstreams_and_unclosed_recordings_are_reported(merged, parts, tmp_path):
    one = parts.stored(exchange(1, 1), tmp_path / "one.db")
    writer = Writer.create(tmp_path / "two.db", upstream="http://b", started_unix_ns=STARTED + SECOND)
    writer.feed(exchange(1, 9))
    writer.close(None)

    output, both = merged(one, tmp_path / "two.db")

    assert "The recordings have different upstreams: the merged recording has http://a, http://b." in output
    assert "two.db was never closed" in output
    with open_recording(both) as recording:
        assert recording.info.ended_ns is not None
        assert recording.info.upstream == "http://a, http://b"


def test_two_fingerprints_of_one_key_are_reported(merged, parts, tmp_path):
    for place, name in enumerate(("one.db", "two.db")):
        key = [("Authorization", "Bearer a-long-key")]
        parts.stored(exchange(1, 1, asked=key), tmp_path / name, started=STARTED + place)

    assert "one client may count as 2 clients" in merged(tmp_path / "one.db", tmp_path / "two.db")[0]


def test_findings_that_only_the_merged_recording_has_are_counted(merged, parts, tmp_path):
    answer = dict.fromkeys(("started", "again"), None)
    event = b'event: run.started\nid: e1\ndata: {"id":"e1","sequence":%d,"type":"run.started","workspace_id":"w",'
    rest = b'"session_id":"s1","run_id":"r","created_at":"2025-01-01T00:00:00Z","content":{},"data":{}}\n\n'
    for place, name in enumerate(answer):
        body = event % (place + 1) + rest
        parts.stored(exchange(1, 1 + 5 * place, body=body, asked=[("Authorization", "k")]), tmp_path / f"{name}.db")

    output, both = merged(*(tmp_path / f"{name}.db" for name in answer))

    assert "Only in the merged recording: 1 finding" in output
    with open_recording(both) as recording:
        assert list(recording.findings())
