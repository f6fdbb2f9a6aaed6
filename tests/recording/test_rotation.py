"""A rotated recording: each of its files opens, and together they are the recording without rotation."""

import random
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.errors import RecordingError
from wiretape.observations import BytesArrived, BytesLost
from wiretape.recording import Writer, open_recording
from wiretape.recording.recording_writer import IN_EARLIER_FILE
from wiretape.recording.rotated_parts import group_parts, open_joined
from wiretape.rules import Checker
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
    while writer.has_backlog:
        writer.derive()


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
    parts = [open_recording(path) for path in paths]
    assert [part.part for part in parts] == [1, 2, 3, 4, 5]
    random.Random(seed).shuffle(parts)
    (group,) = group_parts(parts)
    # Rotation takes a few nanoseconds for each open exchange, which these times leave.
    with open_recording(whole) as expected, open_joined(group) as joined:
        assert bytes_of(joined.observations()) == bytes_of(expected.observations())
        assert findings_of(joined) == findings_of(expected)
        assert [each.ending for each in joined.exchanges()] == [each.ending for each in expected.exchanges()]
        assert len(joined.captures()) == 5


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


def test_files_that_are_not_consecutive_stay_apart(tmp_path):
    observations = list(traffic(4))
    paths = record(tmp_path / "run.db", observations, [5, 9, 12])
    (other,) = record(tmp_path / "other.db", observations)
    opened = {path.name: open_recording(path) for path in [*paths, other]}
    groups = group_parts([opened["run.3.db"], opened["other.db"], opened["run.db"], opened["run.1.db"]])
    assert [[part.path.name for part in group] for group in groups] == [
        ["run.3.db"],
        ["other.db"],
        ["run.db", "run.1.db"],
    ]


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
    merged = tmp_path / "merged.db"
    result = CliRunner().invoke(wiretape, ["merge", *map(str, paths), "--output", str(merged)])
    assert result.exit_code == 0, result.output
    with open_recording(merged) as recording, open_recording(whole) as expected:
        assert bytes_of(recording.observations()) == bytes_of(expected.observations())
