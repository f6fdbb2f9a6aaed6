"""Compressed recordings: every command reads the same bytes from them, and hostile ones are refused in one sentence."""

import errno
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
import zstandard
from invoke import invoke, refusal, succeed
from observation_builder import ObservationBuilder

from wiretape.errors import RecordingError
from wiretape.recording import Writer, open_recording
from wiretape.recording.compressed_file import compress_recording, decompressed_parts

EVENT = b'event: message.delta\ndata: {"type":"message.delta","run_id":"run_1","delta":{"text":"word %d "}}\n\n'


@pytest.fixture
def recording(begin, path):
    """A recording, and its compressed form in another folder."""
    writer, _ = begin()
    talk = ObservationBuilder(writer.began_ns)
    writer.feed(talk.stream(*(EVENT % number for number in range(1000))))
    writer.close(2**61)
    folder = path.with_name("compressed")
    folder.mkdir()
    copy = folder / path.name
    copy.write_bytes(path.read_bytes())
    return path, compress_recording(copy)


def test_a_program_that_is_being_started_does_not_prevent_compression(begin, path):
    """Between `fork` and `exec`, it has copies of all descriptors, and with them the locks of this process."""
    writer, _ = begin()
    mine = Path("/proc/self/fd")
    copies = [os.dup(int(each.name)) for each in list(mine.iterdir()) if each.exists() and each.samefile(path)]
    writer.close()
    assert compress_recording(path).exists()
    for copy in copies:
        os.close(copy)


def lines_of(path):
    """Return all observations, and no times of day."""
    return succeed("export", path, "--format", "tape").stdout_bytes.partition(b"\n---\n")[2]


@pytest.mark.parametrize(
    "command",
    [
        ["report", "--no-config", "--jobs", "1"],
        ["show", "--exchange", "1"],
        ["channels"],
        ["diff"],
        ["export", "--format", "sse"],
        ["export", "--format", "tape"],
        ["replay", "--verify"],
    ],
    ids=lambda command: command[0] + command[-1],
)
def test_commands_print_the_same_as_for_the_original(recording, command):
    original, compressed = recording
    before = compressed.read_bytes()
    second = [original] if command == ["diff"] else []
    plain, other = (invoke(*command, file, *second) for file in recording)
    output = other.output_bytes.replace(bytes(compressed), bytes(original)).replace(b"run.db.zst", b"run.db")
    assert (other.exit_code, output) == (plain.exit_code, plain.output_bytes)
    assert plain.exit_code in {0, 1}
    assert plain.output
    assert compressed.read_bytes() == before
    assert len(before) < original.stat().st_size / 5


@pytest.mark.parametrize("command", [["trim", "--exchange", "1"], ["merge", "other.db"], ["recover"]])
def test_commands_make_the_same_recording_as_from_the_original(recording, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = Writer.create("other.db", upstream="http://service")
    other.close(2**61)
    lines = []
    for file in recording:
        succeed(*command, file, "--output", "made.db", "--force")
        lines.append(lines_of("made.db"))
    assert lines[0] == lines[1]
    assert lines[0].count(b"\n") > 100


def test_the_form_is_that_of_the_program_zstd(recording):
    original, compressed = recording
    content = compressed.read_bytes()
    assert zstandard.ZstdDecompressor().decompress(content) == original.read_bytes()
    # `cat` joins files, and other programs split them.
    parts = range(0, original.stat().st_size, 50_000)
    compressed.write_bytes(b"".join(zstandard.compress(original.read_bytes()[at:][:50_000]) for at in parts))
    assert b"".join(decompressed_parts(compressed)) == original.read_bytes()


def error_of(path):
    with pytest.raises(RecordingError) as raised:
        open_recording(path)
    assert str(path) in raised.value.message
    assert "\n" not in raised.value.message
    return raised.value.message


def test_damaged_files_are_refused_and_recovered_up_to_the_damage(recording, tmp_path):
    _, compressed = recording
    content = compressed.read_bytes()
    damaged = tmp_path / "damaged.db.zst"
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    for bad in (content[:-5], content[: len(content) // 2], bytes(flipped)):
        damaged.write_bytes(bad)
        assert "is damaged: " in error_of(damaged)
        assert "`wiretape recover`" in error_of(damaged)
    damaged.write_bytes(content[: len(content) * 9 // 10])
    truncated = tmp_path / "truncated.db"
    with truncated.open("wb") as file, suppress(RecordingError):
        file.writelines(decompressed_parts(damaged))
    assert truncated.stat().st_size > 50_000
    saved = [tmp_path / "1.db", tmp_path / "2.db"]
    for source, made in zip((damaged, truncated), saved, strict=True):
        succeed("recover", source, "--output", made)
    assert lines_of(saved[0]) == lines_of(saved[1])
    damaged.write_bytes(content[:6])
    refusal("recover", damaged, "--output", tmp_path / "nothing.db")


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("wiretape.recording.compressed_file.ANY_RATIO", 1 << 20)
    bomb = tmp_path / "bomb.db.zst"
    bomb.write_bytes(zstandard.compress(bytes(16 << 20)))
    assert error_of(bomb).endswith("is not a recording: it decompresses to more than 200 times its size.")
    wide = zstandard.ZstdCompressionParameters(window_log=28)
    bomb.write_bytes(zstandard.ZstdCompressor(compression_params=wide).compress(bytes(100)))
    assert "is not a wiretape recording" in error_of(bomb) or "damaged" in error_of(bomb)


def test_what_is_no_recording_inside_is_refused(recording, tmp_path):
    original, _ = recording
    for number, content in enumerate((b"", b"tape: 1\n", b"SQLite format 3\0" + bytes(5000))):
        other = tmp_path / f"{number}.zst"
        other.write_bytes(zstandard.compress(content))
        assert "recording" in error_of(other)
    with closing(sqlite3.connect(original)) as connection, connection:
        connection.execute("UPDATE segment SET start = -1")
    other.write_bytes(zstandard.compress(original.read_bytes()))
    assert "row 1 of the `segment` table is invalid" in error_of(other)


def test_a_recording_that_cannot_be_compressed_stays(recording, monkeypatch):
    original, _ = recording
    before = original.read_bytes()
    target, elsewhere = original.with_name("run.db.zst"), original.with_name("elsewhere")
    for occupy in (lambda: target.write_bytes(b"other"), lambda: target.symlink_to(elsewhere)):
        occupy()
        with pytest.raises(RecordingError, match=r"remains uncompressed: .* exists"):
            compress_recording(original)
        target.unlink()
    assert not elsewhere.exists()
    with closing(sqlite3.connect(original)) as reader:
        reader.execute("PRAGMA journal_mode = WAL")
        reader.execute("UPDATE recording SET redacted = 1")
        reader.commit()
        with pytest.raises(RecordingError, match="another program is using it"):
            compress_recording(original)
    assert not target.exists()
    original.write_bytes(before)

    def fail(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(RecordingError) as raised:
        compress_recording(original)
    assert raised.value.message == (
        f"{original} remains uncompressed: {target} cannot be written: No space left on device."
    )
    assert original.read_bytes() == before
    assert [each.name for each in original.parent.glob("*run*")] == [original.name]
