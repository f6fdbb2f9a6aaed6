"""`wiretape recover`: what remains readable of a damaged recording."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from invoke import succeed

from wiretape.observations import BytesArrived, BytesLost, RequestStarted
from wiretape.recording import Writer, open_recording

PAGE = 4096


@pytest.fixture(scope="module")
def whole(parts, tmp_path_factory) -> Path:
    """A recording of several clients and sessions, with segments longer than a page."""
    before = parts.conversation(3, 20)
    observations = parts.buried(parts.vector("SEQ001"), before, 200)
    return parts.stored(observations, tmp_path_factory.mktemp("whole") / "whole.db")


@pytest.fixture
def recover(run, tmp_path):
    """Recover a file; return the path of the new recording, and the output."""

    def recover(file: Path) -> tuple[Path, str]:
        result = succeed("recover", file, "--output", tmp_path / "new.db")
        return tmp_path / "new.db", result.output

    return recover


def bytes_of(path: Path) -> int:
    with open_recording(path) as recording:
        return sum(each.request_bytes + each.response_bytes for each in recording.exchanges())


def lost_of(path: Path) -> int:
    with open_recording(path) as recording:
        return sum(each.lost_bytes for each in recording.exchanges())


def test_an_intact_recording_is_copied_unchanged(parts, whole, recover):
    before = whole.read_bytes()
    new, output = recover(whole)
    assert parts.read(new) == parts.read(whole)
    with open_recording(new) as copy, open_recording(whole) as original:
        assert parts.findings(copy) == parts.findings(original)
        assert copy.captures() == original.captures()
        assert (copy.info.upstream, copy.info.started) == (original.info.upstream, original.info.started)
    assert output.count("\n") == 1, output
    assert whole.read_bytes() == before


def test_rows_before_and_after_each_damaged_page_are_kept(parts, whole, recover, tmp_path):
    content = bytearray(whole.read_bytes())
    with closing(sqlite3.connect(whole)) as connection:
        rows = list(connection.execute("SELECT bytes FROM segment ORDER BY id"))
    pages = [content.index(rows[len(rows) * tenths // 10][0][:200]) // PAGE for tenths in (3, 6)]
    for page in pages:
        content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(content)
    new, output = recover(damaged)
    assert "SQLite could not read all rows of the table segment." in output
    original = [each.data for each in parts.read(whole) if isinstance(each, BytesArrived)]
    found = {each.data for each in parts.read(new) if isinstance(each, BytesArrived)}
    assert found < set(original)
    assert {original[0], original[len(original) * 45 // 100], original[-1]} <= found


@pytest.mark.parametrize("tenths", [6, 9])
def test_of_a_truncated_file_the_rest_is_kept_and_each_missing_byte_is_lost(whole, recover, run, tmp_path, tenths):
    content = whole.read_bytes()
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(content[: len(content) * tenths // 10])
    assert run("report", damaged).exit_code == 2
    new, output = recover(damaged)
    assert bytes_of(new) > 0
    report = run("report", new)
    with open_recording(whole) as original, open_recording(new) as recovered:
        known = {each.number: each for each in recovered.exchanges() if not each.request.is_invented}
        stored = {each.number: each.request_bytes + each.response_bytes for each in original.exchanges()}
    found = {number: each.request_bytes + each.response_bytes + each.lost_bytes for number, each in known.items()}
    assert len(found) > 1
    assert found == {number: stored[number] for number in found}
    assert lost_of(new) > 0
    assert "from byte" in output
    assert "REC001 capture-incomplete" in report.output
    assert report.exit_code == 1


def test_bytes_before_a_hole_in_a_segment_are_kept(begin_long, recover):
    """The last of the pages that contain a segment is missing."""
    path, data = begin_long
    content = path.read_bytes()
    last = content.index(data[-64:]) // PAGE * PAGE
    path.write_bytes(content[:last] + bytes(PAGE) + content[last + PAGE :])
    new, _ = recover(path)
    with open_recording(new) as recording:
        (run,) = [part for part in recording.observations() if isinstance(part, BytesArrived)]
    assert data.startswith(run.data[:-PAGE])
    assert len(run.data) > len(data) - 2 * PAGE


@pytest.fixture
def begin_long(parts, tmp_path):
    """A recording with a single long segment, and its bytes."""
    data = b"".join(b"data: %060d\n\n" % number for number in range(500))
    seen = [each for each in parts.vector("SEQ001").observations() if not isinstance(each, BytesArrived)]
    at = next(index for index, each in enumerate(seen) if type(each).__name__ == "ResponseStarted")
    seen.insert(at + 1, BytesArrived(seen[at].exchange, "response", 0, data, (len(data),), (seen[at].time_ns + 1,)))
    seen = [each for each in seen if each.exchange == seen[at].exchange]
    return parts.stored(seen, tmp_path / "long.db"), data


def test_the_journal_of_a_killed_recorder_is_read_and_can_be_missing(parts, recover, tmp_path):
    folder = tmp_path / "killed"
    folder.mkdir()
    writer = Writer.create(tmp_path / "run.db", upstream="http://a")
    seen = parts.conversation(3, 20)
    writer.feed(seen[: len(seen) // 2])
    writer.commit()
    writer._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    writer.feed(seen[len(seen) // 2 :])
    writer.commit()
    for name in ("run.db", "run.db-wal"):
        shutil.copy(tmp_path / name, folder / name)
    with open_recording(tmp_path / "run.db") as recording:
        written = parts.singles(recording)
    writer.close()

    new, _ = recover(folder / "run.db")
    assert parts.read(new) == written
    new.unlink()
    (folder / "run.db-wal").unlink()
    new, _ = recover(folder / "run.db")
    found = parts.read(new)
    assert found == written[: len(found)]
    assert 5 < len(found) < len(written)


def test_bytes_of_an_unknown_exchange_are_kept_as_a_stream_that_rules_check(run, recover, tmp_path, parts, whole):
    damaged = tmp_path / "damaged.db"
    shutil.copy(whole, damaged)
    with open_recording(whole) as original:
        number = max(each.number for each in original.exchanges() if each.is_stream)
        events = [event.id for event in original.events(number)]
    Path(damaged).write_bytes(whole.read_bytes())
    change(damaged, "DELETE FROM exchange WHERE id = ?", number)
    new, output = recover(damaged)
    assert f"Exchange {number}: the request and headers are missing." in output
    with open_recording(new) as recording:
        exchange = recording.exchange(number)
        assert exchange.request.is_invented
        assert exchange.operation is not None
        assert [event.id for event in recording.events(number)] == events
    report = run("report", new, "--format", "json")
    assert '"code":"REC001"' in report.output.replace(" ", "")


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + bytes(10_000), bytes(10_000)])
def test_a_file_without_rows_of_a_recording_is_refused(run, tmp_path, content):
    (tmp_path / "note").write_bytes(content)
    result = run("recover", tmp_path / "note", "--output", tmp_path / "new.db")
    assert result.exit_code == 2
    assert "contains no readable exchanges" in result.output
    assert not (tmp_path / "new.db").exists()


def test_a_recording_in_progress_is_refused(run, tmp_path):
    writer = Writer.create(tmp_path / "run.db", upstream="http://a")
    result = run("recover", tmp_path / "run.db", "--output", tmp_path / "new.db")
    writer.close()
    assert result.exit_code == 2
    assert "Another process is recording" in result.output


def test_losses_that_were_recorded_are_kept(parts, recover, tmp_path):
    head = RequestStarted(1, 10, "::1", "GET", "http", "svc", "/", "HTTP/1.1", ())
    path = parts.stored([head, BytesLost(1, 20, "request", 0, 500, "full")], tmp_path / "lost.db")
    new, output = recover(path)
    assert parts.read(new) == parts.read(path)
    assert "from byte" not in output
