"""`wiretape show --at`: one event looked at closely."""

import gzip

import pytest
from findings import finding
from tables import read_tables

TABLES = read_tables(__file__)

HOSTILE = b"event: \x1b]0;x\x07\r\ndata: \xff\x00\xe2\x80\xae\rid: a\n\n"


def hex_of(output):
    """The bytes of the hexadecimal dump."""
    lines = output.rpartition("\n\n")[2].splitlines()
    return bytes.fromhex("".join(line[10:58] for line in lines))


@pytest.fixture
def stream(builder, message):
    """Three events, the second of which comes in two chunks, an exchange without a stream, no event, and one."""
    second = message("run.completed", id="e2", sequence=2, run_id="r1")
    builder.exchange(
        [
            message("run.started", id="e1", sequence=1, run_id="r1"),
            b": keep-alive\n\n",
            (5, second[:10]),
            (5, second[10:]),
            message("session.status_idle", id="e3", sequence=3),
        ]
    )
    builder.exchange([b"{}"], target="/x", headers=())
    builder.exchange()
    builder.exchange([message("run.started", id="e1", sequence=1)])
    builder.find(finding(2, message="It is the second."), finding(3, message="It is the third."))
    return builder.close(), second


def test_an_event_is_shown_with_its_fields_its_data_and_its_bytes_each_once(run, stream):
    path, second = stream
    result = run("show", path, "--at", "1:2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert hex_of(result.output) == second
    assert '   field  event: run.completed\n   field  id: e2\n    data  {\n            "' in result.output
    assert result.output.count('"run_id": "r1"') == 1
    assert "  chunks  2 chunks: " in result.output


@pytest.mark.parametrize(("data", "lines"), TABLES["data"])
def test_json_data_is_indented_and_other_data_is_unchanged(run, builder, data, lines):
    builder.exchange([b"event: a\ndata: " + data.encode("latin-1") + b"\n\n"])
    output = run("show", builder.close(), "--at", "1:1").output
    shown = output.partition("   field  event: a\n")[2].partition("\n session")[0]
    assert shown.splitlines() == [f"{'' if at else 'data':>8}  {line}" for at, line in enumerate(lines)]


def test_long_or_deep_data_is_cut(run, builder):
    deep, long = b"[" * 500 + b"]" * 500, b'["%s"]' % (b"\\u0041" * 1_000_000)
    builder.exchange([b"data: " + data + b"\n\n" for data in (deep, long)])
    path = builder.close()
    assert "  ]\n" in run("show", path, "--at", "1:1").output
    output = run("show", path, "--at", "1:2").output
    assert "A…\n          … 6.0 MB in total; --json prints all of it\n" in output
    assert " MB more; --json prints all bytes" in output
    assert len(output) < 50_000


def test_it_is_shown_between_its_neighbours_with_its_findings(run, stream):
    lines = run("show", stream[0], "--at", "1:2").output.splitlines()
    assert lines[0].startswith("#1 ")
    assert "run.started" in lines[2]
    assert lines[3].startswith("▶     2")
    assert lines[4].strip() == "└ SEQ001 error  It is the second."
    assert [line.split()[:2] for line in lines[5:8]] == [["=", "clause:"], ["=", "why:"], ["=", "fix:"]]
    assert "session.status_idle" in lines[8]
    assert "It is the third." not in "".join(lines)


def test_the_first_and_the_last_event_have_one_neighbour(run, stream):
    assert len(run("show", stream[0], "--at", "1:1").output.split("\n\n")[0].splitlines()) == 4
    assert len(run("show", stream[0], "--at", "1:3").output.split("\n\n")[0].splitlines()) == 8


def test_hostile_bytes_are_escaped(run, builder):
    builder.exchange([HOSTILE])
    output = run("show", builder.close(), "--at", "1:1").output
    assert all(line.isprintable() for line in output.splitlines())
    assert hex_of(output) == HOSTILE
    assert r"   field  event: \x1b]0;x\x07" in output
    assert r"    data  \xff\x00" in output


def test_an_encoded_event_is_shown_decoded(run, builder, message):
    event = message("run.started", id="e1", sequence=1)
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    builder.exchange([gzip.compress(event)], headers=headers)
    output = run("show", builder.close(), "--at", "1:1").output
    assert hex_of(output) == event
    assert "unknown, because the body is encoded (gzip)" in output
