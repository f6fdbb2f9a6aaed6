"""Recordings from strangers: changed schemas, rows that no recorder writes, and single wrong bits."""

import os
import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from invoke import invoke, refusal, succeed
from tables import read_tables

from wiretape.errors import InputError, RecordingError
from wiretape.recording import Writer, open_recording

TABLES = read_tables(__file__)

FLIPS = int(os.environ.get("WIRETAPE_FLIPS", "12"))
"""Set it to 600 for all."""
COMMANDS = (
    ("report", "{damaged}"),
    ("show", "{damaged}"),
    ("channels", "{damaged}"),
    ("diff", "{whole}", "{damaged}"),
    ("trim", "{damaged}", "--exchange", "2", "--output", "{new}"),
    ("merge", "{whole}", "{damaged}", "--output", "{new}"),
    ("replay", "{damaged}", "--verify"),
    ("recover", "{damaged}", "--output", "{new}"),
)


@pytest.fixture
def recording(begin, path) -> Path:
    """Return a recording of two streams with several segments."""
    writer, talk = begin()
    for _ in range(2):
        writer.feed(talk.stream(*[b'data: {"id":"e%d"}\n\n' % number + b"x" * 20 for number in range(4)]))
        writer.commit()
    writer.close(talk.tick())
    return path


def _change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def _change_schema(path: Path, old: str, new: str) -> None:
    """Change the SQL of the schema, as a copy that another program makes could."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?)", (old, new))


ROWS = TABLES["rows"]
SCHEMAS = TABLES["schemas"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_changed_schema_is_refused_when_it_is_opened_and_appended_to(recording, name) -> None:
    script, sentence = SCHEMAS[name]
    _change(recording, script)
    before = recording.read_bytes()
    with pytest.raises(RecordingError) as caught:
        open_recording(recording)
    caught.match(sentence)
    with pytest.raises(RecordingError, match=r"is not a recording that wiretape made|is damaged"):
        Writer.create(recording, upstream="http://service", append=True)
    assert recording.read_bytes() == before


@pytest.mark.parametrize(("old", "new"), [(") STRICT", ")"), ("start INTEGER NOT NULL", "start ANY")])
def test_a_copy_with_weaker_types_is_refused(recording, old, new) -> None:
    _change_schema(recording, old, new)
    with pytest.raises(RecordingError, match=r"its table [a-z]+ differs"):
        open_recording(recording)


def test_other_comments_views_and_statistics_are_no_difference(recording) -> None:
    """Earlier versions wrote other comments and other SQL for their views."""
    _change_schema(
        recording, "-- JSON: [[name, value], ...]; null: invented by an import", "-- JSON: [[name, value], ...]"
    )
    _change(recording, "DROP VIEW gaps; CREATE VIEW gaps AS SELECT 1; ANALYZE")
    with open_recording(recording) as opened:
        assert len(list(opened.exchanges())) == 2


@pytest.mark.parametrize("name", [*ROWS, *SCHEMAS])
def test_what_is_refused_can_be_recovered(recording, name, tmp_path) -> None:
    with open_recording(recording) as whole:
        streams = [[event.id for event in whole.events(number)] for number in (1, 2)]
    _change(recording, ROWS[name] if name in ROWS else SCHEMAS[name][0])
    result = succeed("recover", recording, "--output", tmp_path / "new.db")
    with open_recording(tmp_path / "new.db") as recovered:
        found = [[event.id for event in recovered.events(each.number)] for each in recovered.exchanges()]
    if name == "negative start":
        assert "Exchange 1: 156 bytes of the response are missing, from byte 0 on." in result.output
    else:
        assert found[-2:] == streams, result.output


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_no_recorder_writes_is_refused_when_it_is_opened(recording, name) -> None:
    _change(recording, ROWS[name])
    for command in (["replay"], ["debug"], ["trim", "--exchange", "2", "--output", f"{recording}.new"]):
        assert f"{recording} is damaged: row " in refusal(*command, recording)
    assert not Path(f"{recording}.new").exists()


@pytest.mark.parametrize(("script", "sentence"), TABLES["found-while-reading"])
def test_other_invalid_values_are_found_when_they_are_read(recording, script, sentence) -> None:
    """Equal times do not let it hang."""
    _change(recording, script)
    with open_recording(recording) as opened, pytest.raises(RecordingError, match=f"is damaged: .*{sentence}"):
        list(opened.observations())


def test_wrong_bits_never_cause_a_traceback_or_a_false_result(recording, tmp_path) -> None:
    """Each command reports, or refuses the file with status 2 and one sentence; none fails unexpectedly."""
    content, chance = recording.read_bytes(), random.Random(13)
    damaged = tmp_path / "damaged.db"
    for _ in range(FLIPS):
        changed = bytearray(content)
        at = chance.randrange(len(content))
        changed[at] ^= 1 << chance.randrange(8)
        for command in COMMANDS:
            damaged.write_bytes(changed)
            arguments = [each.format(whole=recording, damaged=damaged, new=tmp_path / "new.db") for each in command]
            result = invoke(*arguments)
            place = f"byte {at}: {arguments}\n{result.output}"
            assert "wiretape failed because of a bug" not in result.output, place
            assert "Traceback" not in result.output, place
            assert result.exit_code in {0, 1, 2}, place
            assert result.exception is None or isinstance(result.exception, SystemExit), place
            if result.exit_code == 2:
                assert result.stderr.startswith("Error: "), place
            if command[0] == "recover" and result.exit_code == 0:
                with open_recording(tmp_path / "new.db") as recovered:
                    assert list(recovered.observations()), place
            (tmp_path / "new.db").unlink(missing_ok=True)


def test_a_page_that_is_replaced_by_another_is_damage(recording) -> None:
    content = recording.read_bytes()
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    for number in range(1, len(pages)):
        for other in range(1, len(pages)):
            recording.write_bytes(b"".join([*pages[:number], pages[other], *pages[number + 1 :]]))
            with suppress(InputError):
                open_recording(recording).close()
