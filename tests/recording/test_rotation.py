"""A rotated recording: each of its files opens, and together they are the recording without rotation."""

import json
import random
import re
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import pytest
import zstandard
from invoke import invoke, refusal, succeed

from wiretape.checker import Checker
from wiretape.errors import RecordingError
from wiretape.observations import BytesArrived, BytesLost, Ending, ExchangeEnded, RequestStarted, ResponseStarted, Side
from wiretape.recording import Writer, open_recording
from wiretape.recording.recording_file import without_unused_part
from wiretape.recording.recording_writer import IN_EARLIER_FILE
from wiretape.recording.rotated_parts import open_wholes
from wiretape.rules.vectors import vectors

STARTED = 1_700_000_000_000_000_000


def traffic(seed):
    """Return the traffic of some vectors at the same time, in small pieces."""
    observed = {}
    for which, vector in enumerate(random.Random(seed).sample(vectors(), 5), 1):
        for seen in vector.observations(piece=50):
            key = seen.time_ns + 100_000 * which
            while key in observed:
                key += 10
            observed[key] = (which, seen)
    numbers, last = {}, 1000
    for time_ns, (which, seen) in sorted(observed.items()):
        number = numbers.setdefault((which, seen.exchange), len(numbers) + 1)
        last = max(time_ns, last + 10)
        moved = {"times": (last,)} if isinstance(seen, BytesArrived) else {"time_ns": last}
        yield replace(seen, exchange=number, **moved)


def derive(writer):
    writer.commit()
    while writer.derive():
        pass


def record(path, observations, rotate_before=()):
    writer = Writer.create(path, upstream="http://service.test", started_unix_ns=STARTED)
    paths = [path]
    for number, seen in enumerate(observations):
        if number in rotate_before:
            derive(writer)
            paths.append(path.with_name(f"{path.stem}.{len(paths)}.db"))
            assert writer.rotate(paths[-1])
        writer.feed([seen])
    derive(writer)
    writer.close(2**61)
    return paths


def bytes_of(observations):
    """Return the bodies with the time of each chunk, and everything else that was observed."""
    chunks, others = {}, []
    for seen in observations:
        if isinstance(seen, BytesArrived):
            chunks.setdefault((seen.exchange, seen.side), []).extend(seen.chunks())
        else:
            others.append(repr(seen))
    return chunks, with_numbered_fingerprints("\n".join(others))


def with_numbered_fingerprints(text):
    """Replace fingerprints, which differ between recordings, by numbers in order of appearance."""
    numbers = {}
    return re.sub(r"\[redacted:\w+\]", lambda found: str(numbers.setdefault(found[0], len(numbers))), text)


def findings_of(recording):
    checker = Checker()
    found = [each for seen in recording.observations() for each in checker.feed(seen)] + checker.finish()
    return with_numbered_fingerprints("\n".join(map(repr, found)))


@pytest.mark.parametrize("seed", range(8))
def test_the_files_together_are_the_recording_without_rotation(tmp_path, seed):
    observations = list(traffic(seed))
    places = sorted(random.Random(seed).sample(range(1, len(observations)), 4))
    (whole,) = record(tmp_path / "whole.db", observations)
    paths = record(tmp_path / "run.db", observations, places)
    random.Random(seed).shuffle(paths)
    # Rotation takes a few nanoseconds for each open exchange, which these times leave.
    with open_recording(whole) as expected, open_joined_files(paths) as joined:
        assert bytes_of(joined.observations()) == bytes_of(expected.observations())
        assert findings_of(joined) == findings_of(expected)
        assert [each.ending for each in joined.exchanges()] == [each.ending for each in expected.exchanges()]
        assert len(joined.captures()) == 5


@contextmanager
def open_joined_files(paths):
    """Open the files of a complete recording as one."""
    with ExitStack() as opened:
        wholes = open_wholes(
            list(map(str, paths)), lambda name: opened.enter_context(open_recording(name)), opened, note=fail, fail=fail
        )
        ((_, recording),) = wholes
        yield recording


def fail(*arguments):
    pytest.fail(str(arguments))


def test_each_file_alone_says_what_precedes_it(tmp_path):
    observations = list(traffic(3))
    paths = record(tmp_path / "run.db", observations, [len(observations) // 2])
    with open_recording(paths[1]) as later:
        lost = [seen for seen in later.observations() if isinstance(seen, BytesLost) and seen.why == IN_EARLIER_FILE]
        assert lost
        for seen in lost:
            first = next(
                (each for each in later.body(seen.exchange, seen.side) if isinstance(each, BytesArrived)), None
            )
            assert seen.start == 0
            assert first is None or first.start == seen.count
        findings_of(later)


def test_the_data_of_an_event_that_is_divided_between_files_is_stored_in_the_second(tmp_path):
    head = list(exchange(1, 10_000))[:2]
    head[1] = replace(head[1], headers=(("Content-Type", "text/event-stream"),))
    parts = [(0, b"data: 1"), (7, b"\n\ndata: 2\n\n")]
    sent = [
        BytesArrived(1, Side.RESPONSE, start, data, (start + len(data),), (20_000 + start * 100,))
        for start, data in parts
    ]
    _, second = record(tmp_path / "run.db", [*head, *sent], [3])
    with closing(sqlite3.connect(second)) as connection:
        assert connection.execute("SELECT data FROM events ORDER BY event").fetchall() == [("1",), ("2",)]


def exchange(number, time_ns):
    target, headers = "/v1/sessions/s1/runs", (("Authorization", "Bearer key-1"),)
    yield RequestStarted(number, time_ns, "127.0.0.1", "GET", "http", "service.test", target, "HTTP/1.1", headers)
    yield ResponseStarted(number, time_ns + 10, 200, "OK", "HTTP/1.1", ())
    yield BytesArrived(number, Side.RESPONSE, 0, b"{}", (2,), (time_ns + 20,))
    yield ExchangeEnded(number, time_ns + 30, Ending.COMPLETE)


@pytest.fixture
def parts(tmp_path):
    """Three files with two exchanges each, none of which crosses two files."""
    observations = [seen for number in range(1, 7) for seen in exchange(number, 10_000 * number)]
    first, *others = record(tmp_path / "run.db", observations, [8, 16])
    return [first, *(path.rename(tmp_path / f"run.000{number}.db") for number, path in enumerate(others, 2))]


def report(*paths):
    """Return the errors and the document of a report."""
    result = invoke("report", *paths, "--format", "json", "--no-config")
    assert result.exit_code in {0, 1}, result.output
    return result.stderr, json.loads(result.stdout)


def errors(*paths):
    """Return the errors of a report that is refused, or that lacks a file."""
    result = invoke("report", *paths, "--no-config")
    assert result.exit_code == 2
    return result.stderr


def summary(*paths):
    """Return the exit status and the lines of a summary."""
    result = invoke("report", *paths, "--summary", "--jobs", "1", "--no-config")
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_a_missing_part_is_named_with_its_exchanges_by_every_command_that_reads_several(parts, tmp_path):
    for given in ([parts[0], parts[2]], [parts[2], parts[0]]):
        sentence = (
            f"Part 2 (exchanges 3 to 4) of the recording is missing between {parts[0]} and {parts[2]}: "
            "add it, or check the files before and after separately."
        )
        assert errors(*given).splitlines()[0] == f"Error: {sentence}"
        assert refusal("merge", *given, "--output", tmp_path / "merged.db") == f"Error: {sentence}"
        status, lines = summary(*given)
        assert (status, lines[0]["error"]) == (2, sentence)


def test_other_recordings_are_checked_although_a_part_of_one_is_missing(parts, tmp_path):
    (other,) = record(tmp_path / "other.db", list(exchange(1, 10_000)))
    result = invoke("report", parts[0], other, parts[2], "--no-config")
    assert result.exit_code == 2
    assert "Part 2 " in result.stderr
    assert f"{other}: no findings" in result.stdout


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ([0], "{0} is part 1 of a rotated recording; not included: the parts after it."),
        ([1], "{0} is part 2 of a rotated recording; not included: part 1 (exchanges 1 to 2) and the parts after it."),
        ([2], "{0} is part 3 of a rotated recording; not included: parts 1 to 2 (exchanges 1 to 4)."),
        ([1, 0], "{1} to {0} are parts 1 to 2 of a rotated recording; not included: the parts after them."),
        ([1, 2], "{0} to {1} are parts 2 to 3 of a rotated recording; not included: part 1 (exchanges 1 to 2)."),
        ([2, 0, 1], None),
    ],
)
def test_some_parts_can_be_checked_and_the_report_states_what_is_not_included(parts, chosen, sentence):
    given = [parts[index] for index in chosen]
    sentence = sentence and sentence.format(*given)
    stderr, document = report(*given)
    assert stderr == (f"{sentence}\n" if sentence else "")
    assert document["recording"].get("partial") == sentence
    assert document["summary"]["exchanges"] == 2 * len(chosen)
    text = succeed("report", *given, "--no-config", "--format", "markdown").stdout
    assert ("not included: " in text) == (sentence is not None)
    assert summary(*given)[1][0].get("partial") == sentence


def test_a_part_that_is_given_twice_is_read_once(parts, tmp_path):
    compressed = tmp_path / "run.0002.db.zst"
    compressed.write_bytes(zstandard.compress(parts[1].read_bytes()))
    stderr, document = report(*parts, compressed)
    assert stderr == f"{compressed} is the same part as {parts[1]}, and is read once.\n"
    assert document["summary"]["exchanges"] == 6
    assert report(*parts, parts[0])[0] == f"{parts[0]} is listed twice, and is read once.\n"
    merged = succeed("merge", *parts, compressed, "--output", tmp_path / "merged.db")
    assert "6 exchanges" in merged.stdout
    assert "is the same part as" in merged.output


def test_two_versions_of_a_part_are_refused(parts, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_bytes(parts[1].read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        connection.executescript("DELETE FROM segment WHERE exchange_id = 4; DELETE FROM exchange WHERE id = 4")
    assert (f"{parts[1]} and {copy} are both part 2 of one recording, but differ: leave one of them out.") in errors(
        *parts, copy
    )
    assert (
        f"{copy} ends with exchange 3, but {parts[2]} continues after exchange 4: replace {copy} by a complete copy."
    ) in errors(parts[0], copy, parts[2])


def test_parts_of_different_recordings_are_not_joined(parts, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    observations = [seen for number in range(1, 5) for seen in exchange(number, 10_000 * number)]
    foreign = record(folder / "run.db", observations, [8])[1]
    stderr, document = report(parts[0], foreign)
    assert stderr.splitlines() == [
        f"{parts[0]} is part 1 of a rotated recording; not included: the parts after it.",
        f"{foreign} is part 2 of a rotated recording; not included: part 1 (exchanges 1 to 2).",
    ]
    assert len(document["reports"]) == 2


def test_copies_of_a_recording_that_was_not_rotated_are_reported_each(tmp_path):
    (path,) = record(tmp_path / "run.db", list(exchange(1, 10_000)))
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    stderr, document = report(path, copy)
    assert (stderr, len(document["reports"])) == ("", 2)


def test_nothing_is_appended_to_a_part_that_is_continued(parts):
    before = parts[0].read_bytes()
    with pytest.raises(RecordingError, match="continues in another file: append to the last one"):
        Writer.create(parts[0], upstream="http://service.test", append=True)
    assert parts[0].read_bytes() == before
    Writer.create(parts[2], upstream="http://service.test", append=True).close(2**61 + 10**9)
    assert report(*parts)[0] == ""


KILLED = """
import os, sys
from pathlib import Path
from wiretape.observations import *
from wiretape.recording import Writer, recording_file, schema

moment, path = sys.argv[1], Path(sys.argv[2])

def seen(number):
    time_ns = 10_000 * number
    target, headers = "/v1/sessions/s1/runs", (("Authorization", "Bearer key-1"),)
    yield RequestStarted(number, time_ns, "127.0.0.1", "GET", "http", "service.test", target, "HTTP/1.1", headers)
    yield BytesArrived(number, Side.REQUEST, 0, b"{}", (2,), (time_ns + 20,))

def end(*_, **__):
    os._exit(9)

def derive():
    writer.commit()
    while writer.derive():
        pass

writer = Writer.create(path, upstream="http://service.test", started_unix_ns=1_700_000_000_000_000_000)
writer.feed(seen(1))
derive()
insert = recording_file.RecordingFile._insert
if moment == "claimed":
    recording_file.lock_for_writing = end
elif moment == "without tables":
    schema.create_schema = end
elif moment == "without rows":
    recording_file.RecordingFile._insert = end
elif moment == "without a capture":
    recording_file.RecordingFile._insert = lambda *row: insert(*row) if row[1] == "recording" else end()
elif moment == "without exchanges":
    store = Writer._store_batch
    Writer._store_batch = lambda writer: end() if writer._file.path != path else store(writer)
elif moment == "without the mark":
    recording_file.RecordingFile.end = end
assert writer.rotate(path.with_name("run.0002.db"))
writer.feed(seen(2))
derive()
end()
"""


LEFT_OUT = ("claimed", "without tables", "without rows", "without a capture")
MOMENTS = (*LEFT_OUT, "without exchanges", "without the mark", "later")


def killed_parts(tmp_path, moment):
    first, second = tmp_path / "run.db", tmp_path / "run.0002.db"
    assert subprocess.run([sys.executable, "-c", KILLED, moment, str(first)], check=False).returncode == 9
    assert second.exists()
    return first, second


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_recorder_that_replaces_a_killed_one_continues_in_the_file_that_is_used(tmp_path, moment):
    first, second = killed_parts(tmp_path, moment)
    used = without_unused_part([first, second])
    assert used == ([first, second] if moment == "later" else [first])
    assert second.exists() == (moment == "later")
    writer = Writer.create(used[-1], upstream="http://service.test", append=True, resume=True)
    body = BytesArrived(1, Side.REQUEST, 2, b"[]", (2,), (writer.last_ns + 10,))
    writer.feed([body, ExchangeEnded(1, writer.last_ns + 20, Ending.CLIENT_CLOSED)])
    derive(writer)
    writer.close(2**61)
    with open_recording(used[-1]) as recording:
        exchange = next(each for each in recording.exchanges() if each.number == 1)
    assert (exchange.ending, exchange.request_bytes) == (Ending.CLIENT_CLOSED, 2 if moment == "later" else 4)


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_parts_of_a_killed_recorder_are_read(tmp_path, moment):
    exchanges, is_left_out = (2 if moment == "later" else 1), moment in LEFT_OUT
    first, second = killed_parts(tmp_path, moment)
    stderr, document = report(second, first)
    note = f"{second} is left out: the recorder was killed before it stored anything in it.\n"
    assert stderr == (note if is_left_out else "")
    assert document["summary"]["exchanges"] == exchanges
    merged = succeed("merge", first, second, "--output", tmp_path / "merged.db")
    assert (note.strip() in merged.output) == is_left_out
    assert summary(first, second)[1][-1]["total"]["exchanges"] == exchanges
    assert (invoke("report", second, "--no-config").exit_code == 2) == is_left_out


def test_an_empty_file_of_another_name_is_an_error(parts, tmp_path):
    empty = tmp_path / "other.0004.db"
    empty.touch()
    assert "other.0004.db is not a wiretape recording: it is empty." in errors(*parts, empty)


def test_recording_continues_in_the_same_file_if_the_next_cannot_be_created(tmp_path):
    observations = list(traffic(5))
    writer = Writer.create(tmp_path / "run.db", upstream="http://service.test", started_unix_ns=STARTED)
    for seen in observations[:10]:
        writer.feed([seen])
    derive(writer)
    with pytest.raises(RecordingError, match="missing"):
        writer.rotate(tmp_path / "missing" / "run.db")
    for seen in observations[10:]:
        writer.feed([seen])
    derive(writer)
    writer.close(2**61)
    (whole,) = record(tmp_path / "whole.db", observations)
    with open_recording(tmp_path / "run.db") as recording, open_recording(whole) as expected:
        assert bytes_of(recording.observations()) == bytes_of(expected.observations())


def test_merge_joins_the_files(tmp_path):
    observations = list(traffic(6))
    paths = record(tmp_path / "run.db", observations, [7, 20])
    (whole,) = record(tmp_path / "whole.db", observations)
    succeed("merge", *paths, "--output", tmp_path / "merged.db")
    with open_recording(tmp_path / "merged.db") as recording, open_recording(whole) as expected:
        assert bytes_of(recording.observations()) == bytes_of(expected.observations())
