"""`wiretape channels`."""

import json

import pytest
from invoke import succeed

from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect.commands.channels import summary_lines
from wiretape_inspect.terminal import Terminal
from wiretape_inspect.terminal_output import Line


def finding(number, severity=Severity.ERROR):
    return Finding("SEQ001", severity, Party.SERVICE, number, 1, 2, None, 5, "It is wrong.")


def parts(line):
    return [part.strip() for part in line.split("  ") if part.strip()]


def cells(output):
    """The rows of the table, each as its cells by column."""
    lines = output.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith(("session ", "channel ")))
    names = parts(lines[at])
    rows = lines[at + 1 : lines.index("", at)]
    return [dict(zip(names, parts(row), strict=True)) for row in rows]


def test_other_exchanges_are_counted_by_status(builder, run):
    builder.exchange(target="/a", status=201, headers=())
    builder.exchange(target="/b", status=201, headers=())
    builder.exchange(target="/c", status=404, headers=())
    builder.exchange(target="/d", status=None, ending=Ending.SERVICE_UNREACHABLE)
    output = run("channels", builder.close()).output

    assert "other exchanges: 201: 2, 404: 1, no response: 1" in output


def test_findings_are_counted_for_their_session_and_altogether(builder, run, message):
    one = message("run.started", id="e1", sequence=1)
    builder.exchange([one], target="/v1/sessions/s1/events/stream")
    builder.exchange([one], target="/v1/sessions/s2/events/stream")
    builder.exchange(target="/other", status=500, headers=())
    builder.find(finding(1), finding(1), finding(1, Severity.NOTE), finding(3))
    output = run("channels", builder.close()).output

    assert [row["findings"] for row in cells(output)] == ["2 errors, 1 note", "-"]
    assert output.endswith("findings: 3 errors, 1 note\n")


def test_a_stream_of_no_contract_is_listed_too(builder, run, message):
    builder.exchange([message("x")], target="/stream")
    (row,) = cells(run("channels", builder.close()).output)

    assert (row["channel"], row["events"], row["durable"], row["last seq"]) == ("(none)", "1", "0", "-")


def test_json_holds_the_same_numbers(run, session):
    document = json.loads(run("channels", session, "--json").output)

    assert document["format"] == 1
    assert document["recording"]["upstream"] == "http://service.test"
    assert document["other_exchanges"] == {"204": 1, "409": 1}
    (session,) = document["channels"]
    assert (session["name"], session["id"]) == ("session", "s1")
    assert (session["streams"], session["requests"], session["events"]) == (2, 1, 41)
    assert session["endings"] == {"client closed": 1, "service reset in mid-event": 1}
    assert session["first"].endswith("+00:00")


def test_an_empty_recording_has_no_table(builder, run):
    result = succeed("channels", builder.close())
    assert result.output.splitlines()[1:] == ["other exchanges: none", "findings: none"]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (200, "session streams events durable deltas last seq first last findings endings"),
        (90, "session streams events last seq first last findings endings"),
        (64, ""),
        (None, "session streams events durable deltas last seq first last findings endings"),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns_or_a_block_for_each_session(session, width, titles):
    terminal = None if width is None else Terminal(width, has_colour=False)
    with open_recording(session) as recording:
        lines = list(summary_lines(recording, terminal))
    text = [terminal.render(line) if terminal and isinstance(line, Line) else str(line) for line in lines]
    shown = text[2 : text.index("", 2)]
    assert max(map(len, "\n".join(text).splitlines())) <= (width or 200)
    if titles:
        assert shown[0].split() == titles.split()
    else:
        assert shown[:2] == ["s1", "    2 streams · 41 events · 4 durable · 37 deltas · last seq 4"]
        assert shown[3] == "    client closed: 1, service reset in mid-event: 1"
