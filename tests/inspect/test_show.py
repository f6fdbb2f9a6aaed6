"""`wiretape show`, on recordings made with the recording's own writer."""

import json
import re
import subprocess

import click
import pytest
from findings import finding
from invoke import succeed
from rich.cells import cell_len
from terminal_output import on_terminal
from wiretape_process import WiretapeProcess

from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape.safe_text import printable
from wiretape_inspect.terminal import Terminal
from wiretape_inspect.timeline_text import exchange_lines

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\x00\x9b31m\r\u2028"
"""Sets the title, clears the screen, reverses the text, is NUL, colours, overwrites and breaks the line."""

NO_NUL = HOSTILE.replace("\x00", "")


def the_line(output, *words):
    """The one line that holds all the words."""
    (line,) = [line for line in output.splitlines() if all(word in line for word in words)]
    return line


def test_an_exchange_without_stream_shows_both_bodies(run, session):
    output = run("show", session, "--exchange", 1).output
    assert output.startswith("#1    POST /v1/runs  409  complete · 89 B · ")
    assert '→ {"agent": "a"}' in output
    assert '← {"error": {"code": "SESSION_BUSY"' in output


def test_an_exchange_without_a_response_is_marked_and_findings_come_last(builder, run):
    builder.exchange(target="/x", status=None, ending=Ending.SERVICE_UNREACHABLE, detail="connection refused")
    builder.find(finding(code="ERR001", message="the body is no envelope"))
    output = run("show", builder.close()).output
    assert "---  service unreachable" in output
    assert "! connection refused" in output
    assert output.splitlines()[-1].strip() == "└ ERR001 error  the body is no envelope"


def test_lost_bytes_are_shown(builder, run, message):
    lost = 70
    builder.exchange([message("a", id="e1", sequence=1), lost, b"\n\n" + message("b")])
    output = run("show", builder.close()).output
    assert "70 B not recorded" in output.splitlines()[0]
    assert "70 B not recorded  disk full" in output


def test_the_preview_of_a_body_ends_before_lost_bytes(builder, run):
    chunks = [(1, b"ab"), 3, (1, b"cd")]
    builder.exchange(chunks, target="/x", headers=())
    assert run("show", builder.close()).output.splitlines()[1].split() == ["←", "ab"]


def test_failures_have_the_style_of_errors(builder, message):
    types = ("tool.started", "tool.completed", "tool.failed", "run.failed", "session.error", "run.completed")
    builder.exchange([message(type_, id=f"e{n}", sequence=n) for n, type_ in enumerate(types)])
    with open_recording(builder.close()) as recording:
        lines = exchange_lines(recording, recording.exchange(1), ())
        styles = {part[0].strip(): part[1] for line in lines for part in line.parts if part[1:]}
    assert {type_: styles[type_] for type_ in types} == {
        type_: "bad" if type_.endswith(("failed", "error")) else "durable" for type_ in types
    }


def test_one_session_is_shown_alone(run, session):
    output = run("show", session, "--channel", "s1").output
    assert "/v1/runs " not in output
    assert [line[:2] for line in output.splitlines() if line.startswith("#")] == ["#2", "#3", "#4"]


def test_the_request_that_created_a_session_belongs_to_it(run, builder):
    answer = {"headers": (("content-type", "application/json"),), "status": 201, "method": "POST"}
    for name in ("s1", "s2"):
        builder.exchange([b'{"id": "%s"}' % name.encode()], target="/v1/sessions", **answer)
        builder.exchange([b"{}"], target=f"/v1/sessions/{name}/runs", **answer | {"status": 409})
        builder.exchange(target=f"/v1/sessions/{name}/events/stream")
    made = builder.close()
    for chosen in (["--channel", "s2"], ["session:s2"]):
        lines = run("show", made, *chosen, "--json").output.splitlines()
        assert [(each["exchange"], each["session_id"]) for each in map(json.loads, lines) if "target" in each] == [
            (4, "s2"),
            (5, "s2"),
            (6, "s2"),
        ], chosen


def test_an_unknown_session_error_lists_the_sessions(builder, run):
    for number in range(7):
        builder.exchange(target=f"/v1/sessions/s{number}/events/stream")
    result = run("show", builder.close(), "--channel", "nope\x1b[2J")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "Error: There is no session nope\\x1b[2J in this recording; the sessions are s0, s1, s2, s3, s4 and 2 more.\n"
    )


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_that_nothing_is_shown_is_reported_on_stderr(run, builder, session, new_builder, form):
    for result, problem in (
        (run("show", new_builder().close(), *form), "The recording is empty.\n"),
        (run("show", session, "type:nothing", *form), "No rows match the filter.\n"),
    ):
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", problem)


@pytest.mark.parametrize("command", [["show"], ["channels"], ["report"], ["export", "--format", "sse"]])
@pytest.mark.parametrize("there", [False, True])
def test_a_hostile_file_name_is_escaped_in_errors(tmp_path, run, command, there):
    path = tmp_path / "a\nb\x1b[2J.db"
    if there:
        path.write_bytes(b"no recording")
    result = run(*command, path)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "a\\nb\\x1b[2J.db" in line
    assert line.isprintable()


def hostile(builder, message):
    """A recording in which everything that can be recorded as text is hostile."""
    builder.exchange(
        [
            message(f"x{HOSTILE}", id=f"e{NO_NUL}", sequence=1, content={"a": HOSTILE}),
            message("tool.started", content={"tool_call_id": HOSTILE, "name": HOSTILE, "input": HOSTILE}),
            message("message.delta", run_id=HOSTILE, delta={"text": HOSTILE}),
            f"event: plain{HOSTILE}\ndata: {HOSTILE}\n\n".encode(),
            f": comment {HOSTILE}\n\n".encode(),
            b"data: \xff\x1b[31m\n\n",
            b"event: cut\x1b[2J",
        ],
        target=f"/v1/sessions/{HOSTILE}/events/stream",
        request_headers=(("last-event-id", "\x1b[2J"),),
        ending=Ending.SERVICE_RESET,
        detail=HOSTILE,
    )
    builder.exchange([HOSTILE.encode()], target="/x", headers=(), status=500, detail=HOSTILE, body=HOSTILE.encode())
    again = message(f"y{HOSTILE}", id=f"e{NO_NUL}", sequence=7, content={"a": HOSTILE})
    cursor = (("last-event-id", f"e{NO_NUL}".encode().decode("latin-1")),)
    builder.exchange([again], target=f"/v1/sessions/{HOSTILE}/events/stream", request_headers=cursor)
    return builder.close()


def test_nothing_recorded_reaches_the_terminal_unescaped(builder, run, message):
    path = hostile(builder, message)
    views = ["show", "channels", "show --follow", "show --resume 1:3", "show --entities"]
    views += [f"show --at 1:{event}" for event in range(1, 6)]
    commands = [f"{view}{form}" for view in views for form in ("", " --json")]
    commands += ["export --format tape", "export --format events"]
    for command in commands:
        result = succeed(*command.split(), path)
        lines = result.output.split("\n")
        assert lines == [printable(line) for line in lines], command


def test_json_keeps_recorded_text_exactly(builder, run, message):
    builder.exchange([message("a", id="e1", sequence=1, content=[{"text": HOSTILE}])])
    row = json.loads(run("show", builder.close(), "--json").output.splitlines()[1])
    assert row["preview"] == f'"{HOSTILE}"'


def test_the_first_lines_of_a_large_recording_come_without_the_rest(builder, message):
    """A reader that leaves after the first line ends the command at once, and quietly."""
    one = message("run.started", id="e1", sequence=1)
    builder.exchange([one * 500 for _ in range(60)])
    process = WiretapeProcess("show", builder.close(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = process.stdout.readline()
    process.stdout.close()
    assert first.startswith(b"#1")
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(20) == 141


def test_a_finding_wraps_instead_of_being_cut(builder, message):
    builder.exchange([message("a", id="e1", sequence=2)])
    builder.find(finding(1, message="word " * 40 + "end."))
    output = on_terminal("show", builder.close(), NO_COLOR="1")
    at = output.index(" " * 16 + "└ SEQ001")
    first, *more = output[at:].split("    end ")[0].splitlines()
    assert len(more) > 1
    assert all(line.startswith(" " * 18 + "word") for line in more)
    assert " ".join([first, *more]).split()[-41:] == ["word"] * 40 + ["end."]
    assert all(len(line) <= 80 for line in output.splitlines())


def test_event_fields_wrap_on_a_terminal(builder, message):
    """It is broken into lines where it has no blanks, and where characters are two columns wide."""
    said = "x" * 150 + "漢" * 70
    builder.exchange([message("a", id="e1", said="SAID").replace(b"SAID", said.encode())])
    output = on_terminal("show", builder.close(), "--at", "1:1", NO_COLOR="1")
    assert "".join(output.split()).count(f'"said":"{said}"') == 1
    assert all(cell_len(line) <= 80 for line in output.splitlines())
    begin = the_line(output, '    "said": "').index('"x')
    assert sum(line.startswith(" " * begin + "x") for line in output.splitlines()) > 1


def test_long_ids_are_abbreviated_on_a_terminal(builder, message):
    builder.exchange([message("tool.started", id="evt_0123456789abcdef", said="hello")])
    path = builder.close()
    for columns, shown in ((90, "evt_012…abcdef"), (200, "evt_0123456789abcdef")):
        output = on_terminal("show", path, columns=columns, NO_COLOR="1")
        row = the_line(output, "tool.started")
        assert shown in row.split()
        assert "hello" in row


def test_ids_in_columns_stay_in_columns_on_a_terminal(builder, message):
    for name, run_id in (("evt_0123456789abcdef", "r1"), ("evt_1123456789abcdef0", "run_0123456789abcdef")):
        builder.exchange([message("run.started", id=name, sequence=1, run_id=run_id)])
    output = on_terminal("show", builder.close(), "--entities", NO_COLOR="1")
    assert [line.split()[1] for line in output.splitlines()[1:]] == ["r1", "run_012…abcdef"]
    assert [line.index(place) for line, place in zip(output.splitlines()[1:], ("1:1-?", "2:1-?"), strict=True)] == [
        26
    ] * 2


def test_a_path_too_long_for_a_terminal_breaks_between_its_parts(builder):
    builder.exchange(target="/v1/sessions/" + "s" * 50 + "/events/stream?event_deltas=true")
    output = on_terminal("show", builder.close(), NO_COLOR="1").splitlines()
    assert output[0].endswith("/events")
    assert output[1].startswith("      /stream?event_deltas=true  200")


@pytest.mark.parametrize("no_color", [False, True])
def test_on_a_terminal_it_is_coloured_cut_to_the_width_and_paged(session, no_color):
    """Colours yield to NO_COLOR, lines to the width, and the pager is the one of PAGER."""
    output = on_terminal("show", session, **({"NO_COLOR": "1"} if no_color else {}))
    assert ("\x1b[" in output) is not no_color
    rows = click.unstyle(output).splitlines()
    assert rows[-1] == "      at 16.492s"
    assert max(map(len, rows)) == 80
    assert any(len(line) == 80 and line.endswith("…") for line in rows)
    assert "run.started" in on_terminal("show", session, "--no-pager", PAGER="false", NO_COLOR="1")


def test_headers_show_the_connection_the_protocol_and_what_was_sent(run, session):
    output = run("show", session, "--exchange", 2, "--headers").output
    at = run("show", session, "--at", "2:1", "--headers").output
    with open_recording(session) as recording:
        exchange = recording.exchange(2)
    request, response = exchange.request, exchange.response
    lines = [line.strip() for line in output.splitlines()]
    assert lines[1:][: 1 + len(request.headers) + len(response.headers)] == [
        f"{request.client} to {request.scheme}://{request.authority}, request HTTP/1.1, response HTTP/1.1",
        *(f"→ {name}: {value}".strip() for name, value in request.headers),
        *(f"← {name}: {value}".strip() for name, value in response.headers),
    ]
    assert [line.strip() for line in at.splitlines()][1:4] == lines[1:4]
    assert "← " not in run("show", session, "--exchange", 2).output


def test_a_narrow_terminal_leaves_out_times_before_ids_and_texts(session):
    with open_recording(session) as recording:
        lines = list(exchange_lines(recording, recording.exchange(2), ()))[1:]
    titles, first = (
        [Terminal(width, has_colour=False).render(lines[number]).split() for width in (60, 70, 80)] for number in (0, 1)
    )
    assert titles == [
        ["event", "seq", "type"],
        ["event", "seq", "gap", "type"],
        ["event", "seq", "time", "gap", "type"],
    ]
    assert first[0][2:4] == first[1][3:5] == first[2][4:6], "type and id are shown"


FAILED = {
    "show": ((), r"tool\.failed +"),
    "entities": (("--entities",), r"tool\.failed +"),
    "detail": (("--at", "1:3"), r"tool\.failed +"),
    "resume": (("--resume", "1:2"), r"3 seq 2 tool\.failed +"),
    "report": ((), r"event: tool\.failed"),
    "channels": ((), r" +1  "),
    "diff": (("--exchange", "1:2"), r"tool\.failed"),
}
"""For each command, or option of `show`, the text that has the style of failures."""


@pytest.mark.parametrize("command", FAILED)
def test_a_failed_tool_is_red_and_only_success_is_green(run, builder, message, command):
    """Also if the recorded text has escape sequences of its own."""
    started = message("run.started", id="e1", sequence=1, run_id="r1", session_id="s1")
    call = {"run_id": "r1", "content": {"tool_call_id": "\x1b[32mc1"}}
    failed = message("tool.failed", id="e3", sequence=2, **call)
    builder.exchange([started + message("tool.started", id="e2", sequence=2, **call) + failed])
    builder.exchange([started], request_headers=(("last-event-id", "e1"),))
    options, text = FAILED[command]
    name = command if command in {"report", "channels", "diff"} else "show"
    output = run(name, builder.close(), *options, env={"FORCE_COLOR": "1"}).output
    assert re.search(rf"\x1b\[31m{text}\x1b\[0m", output), output
    assert {click.unstyle(each).strip() for each in re.findall(r"\x1b\[32m.*?\x1b\[0m", output)} <= {"200", "same"}


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_force_color_colours_a_pipe_without_cutting_lines(run, session, monkeypatch, variables, coloured):
    plain = run("show", session).output
    for name, value in {"FORCE_COLOR": "1", **variables}.items():
        monkeypatch.setenv(name, value)
    output = run("show", session).output
    assert ("\x1b[" in output) is coloured
    assert click.unstyle(output) == plain
