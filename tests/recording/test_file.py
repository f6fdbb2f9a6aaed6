"""The file of a recording: its writer, refused paths, kills, full disks and appending."""

import os
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path

import observation_builder
import pytest

from wiretape.checker import Checker
from wiretape.errors import RecordingError
from wiretape.observations import BytesArrived, BytesLost, Ending, Side
from wiretape.recording import Writer, lock_for_writing, open_recording, recording_writer, schema
from wiretape.recording.disk_space import RESERVE_BYTES, DiskSpace
from wiretape.rules import Finding, Party, Severity

KILLED = """
import os, signal, sys
sys.path.insert(0, os.path.dirname(sys.argv[2]))
from observation_builder import ObservationBuilder
from wiretape.recording import Writer
writer = Writer.create(sys.argv[1], upstream="http://service")
talk = ObservationBuilder(writer.began_ns)
writer.feed([talk.ask(), talk.asked(), talk.answer()])
for batch in range(20):
    numbers = [*range(batch * 250 + 1, batch * 250 + 251)]
    numbers[-1] -= batch == 19
    message = b'id: e%d\\nevent: run.started\\ndata: {"id":"e%d","sequence":%d,"type":"run.started"}\\n\\n'
    writer.feed([talk.send(*(message % ((number,) * 3) for number in numbers))])
    writer.commit()
writer.derive()
assert writer.tables.unread_bytes > 0
writer.feed([talk.send(b"data: never committed\\n\\n")])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_journal_is_bounded_while_a_long_recording_is_checked(begin, path) -> None:
    """What was recorded before is read in slices: a query that is not finished would keep all of the journal."""
    writer, talk = begin()
    writer.feed([talk.ask(), talk.asked(), talk.answer()])
    for _ in range(25):
        writer.feed([talk.send(b"x" * 50_000) for _ in range(20)])
        writer.commit()
    writer.feed([talk.end()])
    writer.close(talk.tick())

    writer, talk = begin(append=True)
    writer.feed([talk.ask(), talk.asked(), talk.answer()])
    largest = steps = 0
    while writer.tables.is_earlier and writer.derive():
        writer.feed([talk.send(b"y" * 400_000)])
        writer.commit()
        steps += 1
        largest = max(largest, path.with_name("run.db-wal").stat().st_size)
    assert steps > 60
    assert largest < 16_000_000


def test_a_closed_recording_is_one_private_file(begin, path) -> None:
    """After a clean close there is no journal, and only the owner may read."""
    writer, talk = begin()
    writer.feed(talk.stream(b"data: 1\n\n"))
    writer.commit()
    assert {name.name for name in path.parent.iterdir()} > {"run.db"}, "a journal while it is written"
    writer.close(talk.tick())
    assert [name.name for name in path.parent.iterdir()] == ["run.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as immutable:
        assert immutable.execute("SELECT count(*) FROM events").fetchone() == (1,)


@pytest.mark.parametrize("name", ["run.db", "run.db-wal", "run.db-shm", "run.db-journal"])
def test_files_of_another_user_are_not_written(begin, path, name, monkeypatch) -> None:
    """In a folder that others can write, somebody could create the journal first, and read the traffic in it."""
    (path.parent / name).touch()
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(RecordingError, match=f"{name} .*belongs to another user|: it belongs to another user"):
        begin()
    assert [(each.name, each.stat().st_size) for each in path.parent.iterdir()] == [(name, 0)]
    monkeypatch.undo()
    begin()[0].close()


def test_a_journal_that_another_user_creates_a_moment_before_is_not_written(begin, path, monkeypatch) -> None:
    (path.parent / "other").touch()
    create_schema = schema.create_schema

    def create_and_link(connection) -> None:
        create_schema(connection)
        Path(f"{path}-wal").rename(path.parent / "moved")
        Path(f"{path}-wal").symlink_to(path.parent / "other")

    monkeypatch.setattr(schema, "create_schema", create_and_link)
    with pytest.raises(RecordingError, match=r"run\.db-wal belongs to another user, or is not a regular file"):
        begin()
    assert not path.exists()


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_journal_that_is_a_link_is_refused(begin, path, suffix) -> None:
    Path(f"{path}{suffix}").symlink_to(path.parent / "elsewhere")
    with pytest.raises(RecordingError, match="not a regular file"):
        begin()
    assert not path.exists()
    assert not (path.parent / "elsewhere").exists()


def test_a_killed_recording_contains_everything_that_was_committed(path) -> None:
    """After kill -9 the file is valid, the exchange is open, and bytes that were not yet indexed can be checked."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), observation_builder.__file__], check=False)
    assert done.returncode == -9
    checker = Checker()
    with open_recording(path) as recording:
        assert recording.info.ended_ns is None
        (exchange,) = recording.exchanges()
        assert exchange.ending is Ending.OPEN
        assert sum(1 for _ in recording.frames(1)) == 5000
        found = [finding for seen in recording.observations() for finding in checker.feed(seen)]
    assert checker.events == 5000
    assert [finding.event for finding in found if finding.code == "SEQ001"] == [5000]
    with closing(sqlite3.connect(path)) as connection:
        (indexed,) = connection.execute("SELECT count(*) FROM frame").fetchone()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert 0 < indexed < 5000


def test_appending_continues_numbers_and_times(begin, path) -> None:
    """Numbers and times of a second capture follow those of the first, and both are returned."""
    writer, talk = begin()
    writer.feed(talk.stream(b"data: 1\n\n"))
    first_end = talk.tick()
    writer.close(first_end)
    writer, talk = begin(append=True)
    assert writer.first_exchange == 2
    assert writer.began_ns > first_end
    writer.feed(talk.stream(b"data: 2\n\n"))
    writer.close(talk.tick())
    with open_recording(path) as recording:
        assert [exchange.number for exchange in recording.exchanges()] == [1, 2]
        times = [seen.time_ns for seen in recording.observations()]
    assert times == sorted(set(times))


def test_a_start_that_fails_leaves_neither_a_lock_nor_a_change(path) -> None:
    """The file is locked before it is read, so a recording that ended a moment ago is refused, not overwritten."""
    Writer.create(path, upstream="http://service").close(10**18)
    before = path.read_bytes()
    with pytest.raises(RecordingError, match="choose another name for --output, or append to it with --append"):
        Writer.create(path, upstream="http://service")
    assert path.read_bytes() == before
    os.close(lock_for_writing(path))


@pytest.mark.parametrize("append", [False, True])
def test_of_two_simultaneous_starts_one_records_and_the_other_leaves_its_file(path, append) -> None:
    """The loser found an empty file, which the winner had just created, and must not delete it."""
    path.touch()
    lock = lock_for_writing(path)
    with pytest.raises(RecordingError, match="Another process is recording to "):
        Writer.create(path, upstream="http://service", append=append)
    assert path.exists()
    os.close(lock)


@pytest.mark.parametrize("attempt", range(8))
def test_simultaneous_starts_leave_exactly_one_recording(path, attempt) -> None:
    """Whatever the order of their steps, one start succeeds, and its file stays."""
    writers, errors, barrier = [], [], threading.Barrier(4)

    def start() -> None:
        barrier.wait()
        try:
            writers.append(Writer.create(path, upstream="http://service"))
        except RecordingError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(writers), len(errors)) == (1, 3)
    assert writers[0].is_in_place
    writers[0].close(0)


def _execute(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def _changed(script: str) -> Callable[[Path], None]:
    """Return a function that makes a recording, and runs SQL in it."""

    def make(path: Path) -> None:
        Writer.create(path, upstream="http://service").close(10**18)
        _execute(path, script)

    return make


def _shorten(path: Path) -> None:
    Writer.create(path, upstream="http://service").close(10**18)
    path.write_bytes(path.read_bytes()[:-4096])


BAD_FILES = {
    "text": (lambda path: path.write_text("hello, I am a note\n" * 100), "is not a wiretape recording"),
    "foreign": (lambda path: _execute(path, "CREATE TABLE exchange (id)"), "is not a wiretape recording"),
    "empty": (lambda path: path.touch(), "is not a wiretape recording"),
    "newer": (
        _changed("PRAGMA user_version = 2"),
        "has recording format 2, but this version of wiretape reads formats up to 1",
    ),
    "of no format": (_changed("PRAGMA user_version = 0"), "is damaged: invalid recording format 0"),
    "damaged": (_changed("DROP TABLE segment"), "damaged: the table segment is missing"),
    "cut off": (_shorten, "is damaged: "),
    "without a description": (_changed("DELETE FROM recording"), "is damaged: the table recording is empty"),
    "without a capture": (_changed("DELETE FROM capture"), "is damaged: the table capture is empty"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_not_a_recording_is_refused_and_unchanged(name: str, path: Path) -> None:
    """Reading and appending refuse the file, and no byte of it changes."""
    make, sentence = BAD_FILES[name]
    make(path)
    before = path.read_bytes()
    with pytest.raises(RecordingError, match=sentence):
        open_recording(path)
    if name not in {"empty", "without a description", "without a capture"}:
        with pytest.raises(RecordingError):
            Writer.create(path, upstream="http://service", append=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["recording", "capture", "segment"])
def test_the_error_about_an_unreadable_page_names_recover(table: str, path: Path) -> None:
    Writer.create(path, upstream="http://service").close(10**18)
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with pytest.raises(RecordingError, match=r"is damaged: .*`wiretape recover`"):
        open_recording(path)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent.db", "There is no file"),
        (".", "is not a recording: it is a folder"),
        ("/dev/null", "is not a recording: it is not a regular file"),
        ("pipe", "is a pipe, but reading needs random access: save the recording to a file first."),
    ],
)
def test_a_path_that_is_not_a_file_is_refused(name: str, sentence: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecordingError, match=sentence):
        open_recording(tmp_path / name)


@contextmanager
def full_disk(writer):
    """Let the file not grow meanwhile."""
    (pages,) = writer._connection.execute("PRAGMA page_count").fetchone()
    writer._connection.execute(f"PRAGMA max_page_count = {pages}")
    yield
    writer._connection.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_loses_bytes_and_reports_them(begin, path) -> None:
    """Bytes that do not fit are counted and located; later bytes are stored once there is room again."""
    writer, talk = begin()
    writer.feed([talk.ask(), talk.asked(), talk.answer(), talk.send(b"data: kept\n\n")])
    writer.commit()
    with full_disk(writer):
        writer.feed([talk.send(b"data: " + b"x" * 50_000 + b"\n\n"), talk.send(b"data: also gone")])
        writer.commit()
        writer.feed([talk.send(b" for good\n\n" + b"z" * 50_000)])
        writer.commit()
        assert "full" in writer.last_error
        assert writer.lost_bytes == 50_008 + 15 + 50_011
    writer.feed([talk.send(b"rest of a line\n\ndata: kept too\n\n"), talk.end()])
    writer.close(talk.tick())

    with open_recording(path) as recording:
        exchange = recording.exchange(1)
        assert exchange.lost_bytes == writer.lost_bytes
        kinds = groupby(map(type, recording.body(1, Side.RESPONSE)))
        assert [kind for kind, _ in kinds] == [BytesArrived, BytesLost, BytesArrived]
        assert exchange.response_bytes == len(b"data: kept\n\n") + len(b"rest of a line\n\ndata: kept too\n\n")
        assert [event.data for event in recording.events(1)] == [b"kept", b"kept too"]


def test_an_exchange_that_begins_on_a_full_disk_is_stored_later(begin, path) -> None:
    """Heads and losses are retried with every commit."""
    writer, talk = begin()
    writer.feed([talk.ask(), talk.end()])
    writer.commit()
    with full_disk(writer):
        writer.feed([talk.ask("/" + "long" * 3000), talk.answer(), talk.send(b"data: gone\n\n")])
        writer.commit()
    writer.feed([talk.end()])
    writer.close(talk.tick())
    with open_recording(path) as recording:
        exchange = recording.exchange(2)
        assert (exchange.lost_bytes, exchange.response_bytes) == (12, 0)
        assert exchange.response is not None


def test_on_a_disk_that_takes_nothing_the_exchanges_in_memory_are_bounded(begin, path, monkeypatch) -> None:
    """The oldest are forgotten; their heads count as lost."""
    monkeypatch.setattr(recording_writer, "_MOST_UNSTORED", 10)
    writer, talk = begin()
    with full_disk(writer):
        for _ in range(40):
            writer.feed([talk.ask("/" + "long" * 3000), talk.end()])
            writer.commit()
            assert len(writer._batch.exchanges) <= 11
        assert writer.lost_bytes > 29 * 12_001
    writer.feed([talk.ask("/last"), talk.end()])
    writer.close(talk.tick())
    with open_recording(path) as recording:
        numbers = [exchange.number for exchange in recording.exchanges()]
        list(recording.observations())
    assert len(numbers) <= 12
    assert numbers == list(range(42 - len(numbers), 42))


@pytest.fixture
def limit_files():
    """Limit how large files of this process may become, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_stays_full_still_takes_what_was_lost_and_the_end(begin, path, limit_files) -> None:
    limit_files(3_000_000)
    writer, talk = begin()
    writer.feed([talk.ask(), talk.asked(), talk.answer()])
    for number in range(80):
        writer.feed([talk.send(*[b"data: %01000d\n\n" % number] * 100)])
        writer.commit()
        writer.derive()
    writer.feed([talk.end(), *talk.stream(b"data: 2\n\n")])
    writer.close(talk.tick())

    checker = Checker()
    with open_recording(path) as recording:
        first, second = recording.exchanges()
        assert recording.info.ended_ns == talk.now_ns
        assert (first.ending, second.ending) == (Ending.COMPLETE, Ending.COMPLETE)
        assert first.response_bytes > 500_000
        assert first.response_bytes + first.lost_bytes == 80 * 100 * 1008
        counts = [part.count for part in recording.body(1, Side.RESPONSE) if isinstance(part, BytesLost)]
        assert sum(counts) == first.lost_bytes
        assert len(counts) < 20, "not a row for each commit"
        found = [finding for seen in recording.observations() for finding in checker.feed(seen)]
    assert ("REC001", Severity.ERROR, 1) in {(finding.code, finding.severity, finding.exchange) for finding in found}


def test_space_for_what_a_full_disk_must_take_is_set_aside_from_the_beginning(begin, path, limit_files) -> None:
    """No other program can take it: the journal and the file have the blocks."""
    limit_files(RESERVE_BYTES // 2)
    with pytest.raises(RecordingError, match=r"run\.db cannot be written: File too large"):
        begin()
    assert list(path.parent.iterdir()) == []
    limit_files(10 * RESERVE_BYTES)
    begin()
    for file in (path, path.with_name("run.db-wal")):
        assert file.stat().st_blocks * 512 >= RESERVE_BYTES


def test_what_is_derived_while_the_disk_is_asked_for_room_is_written(begin, path, monkeypatch) -> None:
    """Another thread derives rows while this one commits."""
    writer, talk = begin()
    reserve = DiskSpace.reserve

    def derive_meanwhile(space: DiskSpace, size: int = 0) -> None:
        writer.derive()
        reserve(space, size)

    monkeypatch.setattr(DiskSpace, "reserve", derive_meanwhile)
    for number in range(5):
        writer.feed(talk.stream(b"data: %d\n\n" % number))
        writer.commit()
    writer.close(talk.tick())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT group_concat(data) FROM events").fetchone() == ("0,1,2,3,4",)


def test_a_lock_delays_every_write_but_loses_nothing(begin, path) -> None:
    """Another process locks the file before commits, the index, findings and the end are written."""
    writer, talk = begin()
    other = sqlite3.connect(path, isolation_level=None)
    waits = []

    def on_locked(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) % 2 == 0:
            other.execute("COMMIT")
        return True

    writer.wait_for_locks(on_locked, on_locked)
    writer.feed(talk.stream(b"data: 1\n\n"))
    finding = Finding("SSE002", Severity.ERROR, Party.SERVICE, 1, None, None, None, talk.now_ns, "Expected nothing.")
    for write in (writer.commit, writer.derive, lambda: writer.add_findings([finding]), lambda: writer.close(10**9)):
        other.execute("BEGIN EXCLUSIVE")
        write()
        assert not other.in_transaction, "the lock really was held"
    other.close()
    assert len(waits) == 8
    assert writer.lost_bytes == 0
    with open_recording(path) as recording:
        assert recording.exchange(1).ending is Ending.COMPLETE
        assert recording.info.ended_ns == 10**9
        assert list(recording.findings()) == [finding]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
