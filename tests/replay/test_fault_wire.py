"""Faults on the wire: what a client receives from a replay with a fault script."""

import re

import orjson
import pytest
from click.testing import CliRunner
from service_contracts import SERVICE
from wire_bytes import chunks_of

from wiretape.cli import wiretape
from wiretape.observations import Ending
from wiretape_contracts.agent_sessions import ERROR_CODES
from wiretape_replay.server_options import fault_script

KEY = "Authorization: Bearer k\r\n"
STREAM = "/v1/sessions/s1/events/stream"
CANCEL = "/v1/sessions/s1/runs/r1/cancel"
MS = 1_000_000


def durable(sequence, kind="message.completed", end=b"\n"):
    told = {"id": f"e{sequence}", "sequence": sequence, "type": kind, "run_id": "r1", "content": "Grüße"}
    return end.join([b"event: " + kind.encode(), b"id: e%d" % sequence, b"data: " + orjson.dumps(told), b"", b""])


FRAMES = [durable(1, "run.started"), durable(2), durable(3, end=b"\r\n"), durable(4, "run.completed")]


@pytest.fixture
def recording(builder):
    builder.exchange(FRAMES, ending=Ending.SERVICE_CLOSED)
    builder.exchange([b"{}"], method="POST", target=CANCEL, headers=(("Content-Length", "2"),))
    return builder.close()


@pytest.fixture
def script(tmp_path):
    def _script(text):
        path = tmp_path / "faults.toml"
        path.write_text(text, "utf-8")
        return fault_script(path, SERVICE)

    return _script


@pytest.fixture
def play(recording, script, serve):
    """Serve the recording with a script; `lines` holds the log lines by URL."""

    def _play(text, mode="channel", **options):
        lines = []
        replay = serve(recording, mode=mode, faults=script(text), log=lines.append, **options)
        replay_lines[replay.url] = lines
        return replay

    replay_lines = {}
    _play.lines = replay_lines
    return _play


@pytest.fixture
def stream(call):
    """What a client receives when it requests the stream."""

    def _stream(url, cursor=None, staying=None):
        client = call(url)
        client.ask(extra=KEY + (f"Last-Event-ID: {cursor}\r\n" if cursor else ""))
        return client.read(staying)

    return _stream


@pytest.fixture
def cancel(call):
    def _cancel(url, staying=None, extra=""):
        client = call(url)
        client.post(CANCEL, b"", KEY + "Connection: close\r\n" + extra)
        return client.read(staying)

    return _cancel


def fault(do, **keys):
    return "\n".join(
        ["[[fault]]", f'do = "{do}"', *(f"{key.replace('_', '-')} = {value}" for key, value in keys.items())]
    )


ONE, TWO, THREE, FOUR = FRAMES
BROKEN = TWO[:-3] + b"\n\n"
PADDED = FOUR[:-2].ljust(5000 + FOUR.index(b"data: ") + 6) + b"\n\n"
INSERT = fault("insert", type='"stream.resync"', after="{ sequence = 2 }")
RESYNC = b'event: stream.resync\ndata: {"type":"stream.resync","session_id":"s1","run_id":"r1"}\n\n'
ON_EVENTS = {
    "nothing": ("", FRAMES, "closed"),
    "drop after": (fault("drop", after="{ sequence = 2 }"), [ONE, TWO], "closed"),
    "drop before": (fault("drop", before="{ sequence = 2 }"), [ONE], "closed"),
    "drop inside": (fault("drop", at="{ sequence = 2 }", offset=20), [ONE, TWO[:20]], "closed"),
    "reset": (fault("reset", after="{ event = 3 }"), [ONE, TWO, THREE], "reset"),
    "reset inside": (fault("reset", at="{ event = 1 }"), [ONE[: len(ONE) // 2]], "reset"),
    "delay": (fault("delay", before="{ sequence = 2 }", seconds=0.01), FRAMES, "closed"),
    "duplicate": (fault("duplicate", at='{ id = "e2" }'), [ONE, TWO, TWO, THREE, FOUR], "closed"),
    "copies": (fault("duplicate", copies=2, at='{ id = "e2" }'), [ONE, TWO, TWO, TWO, THREE, FOUR], "closed"),
    "reorder": (fault("reorder", at="{ sequence = 2 }"), [ONE, THREE, TWO, FOUR], "closed"),
    "reorder at the end": (fault("reorder", at="{ sequence = 4 }"), FRAMES, "closed"),
    "broken JSON": (
        fault("corrupt", how='"json"', at="{ sequence = 2 }"),
        [ONE, TWO[:-3] + b"\n\n", THREE, FOUR],
        "closed",
    ),
    "replaced bytes": (
        fault("corrupt", how='"replace"', find='"e2"', **{"with": '"e9"'}, at="{ sequence = 2 }"),
        [ONE, TWO.replace(b"e2", b"e9"), THREE, FOUR],
        "closed",
    ),
    "bad UTF-8": (
        fault("corrupt", how='"utf-8"', at="{ sequence = 2 }"),
        [ONE, TWO.replace("Grü".encode(), b"\xff" + "Grü".encode()), THREE, FOUR],
        "closed",
    ),
    "split at offsets": (
        fault("split", offsets="[3, 9]", at="{ event = 1 }"),
        [ONE[:3], ONE[3:9], ONE[9:], *FRAMES[1:]],
        "closed",
    ),
    "split at every byte": (
        fault("split", where='"every-byte"', at="{ event = 1 }", pause=0.00001),
        [*(bytes([byte]) for byte in ONE), *FRAMES[1:]],
        "closed",
    ),
    "split inside characters": (
        fault("split", where='"utf-8"', at="{ event = 1 }"),
        [*re.split(rb"(?<=\xc3)", ONE), *FRAMES[1:]],
        "closed",
    ),
    "split between CR and LF": (
        fault("split", where='"crlf"', at="{}"),
        [ONE, TWO, *re.split(rb"(?<=\r)", THREE), FOUR],
        "closed",
    ),
    "oversize": (fault("oversize", bytes=5000, at="{ event = 4 }"), [ONE, TWO, THREE, PADDED], "closed"),
    "resync": (INSERT, [ONE, TWO, RESYNC, THREE, FOUR], "closed"),
    "resync and drop": (INSERT + "\n" + fault("drop", after="{ sequence = 2 }"), [ONE, TWO, RESYNC], "closed"),
    "another session": (fault("drop", after="{ sequence = 2 }", channel='"s2"'), FRAMES, "closed"),
}


@pytest.mark.parametrize(("text", "sent", "how"), ON_EVENTS.values(), ids=ON_EVENTS)
def test_a_fault_of_events_changes_the_wire(play, stream, text, sent, how):
    seen = stream(play(text).url)
    assert seen.how == how
    assert chunks_of(seen.body) == sent


def test_a_held_stream_sends_nothing_more_and_stays_open(play, call):
    client = call(play(fault("hold", after='{ type = "run.started" }')).url)
    client.ask(extra=KEY)
    client.read_past(ONE + b"\r\n")
    rest = client.read(b"")
    assert (rest.data, rest.how) == (b"", "open")


def test_a_flipped_bit_is_the_same_in_every_run(play, stream):
    text = fault("corrupt", at="{ sequence = 2 }", count=3)
    one, other, another = (stream(play(seed + text).url).data for seed in ("seed = 1\n", "seed = 1\n", "seed = 2\n"))
    assert one == other != another
    assert len(one) == len(another)
    assert TWO not in one


def test_applied_faults_are_logged_and_counted(play, stream):
    replay = play(fault("drop", name='"late"', after="{ sequence = 2 }", times=1))
    assert stream(replay.url).how == "closed"
    text = "Fault late: drop after event 2, message.completed, sequence 2 (session s1, connection 1)"
    assert text in play.lines[replay.url]
    assert replay.faults.counts == {"late": 1}


def test_a_client_that_reconnects_gets_every_event_once(play, stream):
    """The stream is dropped after each event in turn; the cursor is the last event received."""
    replay = play(fault("drop", after='{ type = "*" }'))
    got, cursor = [], None
    while len(got) < 4:
        (frame,) = chunks_of(stream(replay.url, cursor).body)
        got.append(frame)
        cursor = re.search(rb"id: (\w+)", frame)[1].decode()
    assert got == FRAMES


def test_a_fault_can_apply_to_a_later_connection(play, stream):
    replay = play(fault("drop", after="{ event = 1 }", connection=2), playhead="connection")
    assert chunks_of(stream(replay.url).body) == FRAMES
    assert chunks_of(stream(replay.url).body) == FRAMES[:1]
    assert chunks_of(stream(replay.url).body) == FRAMES


def test_a_held_stream_does_not_hold_others(play, call, stream):
    replay = play(fault("hold", after="{ event = 1 }", connection=1), playhead="connection")
    waiting = call(replay.url)
    waiting.ask(extra=KEY)
    waiting.read_past(ONE + b"\r\n")
    assert chunks_of(stream(replay.url).body) == FRAMES


BEFORE_ANSWERS = {
    "drop": (fault("drop"), "closed"),
    "reset": (fault("reset"), "reset"),
    "hold": (fault("hold"), "open"),
}


@pytest.mark.parametrize("mode", ["channel", "verbatim"])
@pytest.mark.parametrize(("text", "how"), BEFORE_ANSWERS.values(), ids=BEFORE_ANSWERS)
def test_a_fault_replaces_the_response(play, stream, cancel, mode, text, how):
    replay = play(text, mode)
    staying = b"" if how == "open" else None
    for seen in (stream(replay.url, staying=staying), cancel(replay.url, staying)):
        assert (seen.data, seen.how) == (b"", how)


@pytest.mark.parametrize("mode", ["channel", "verbatim"])
def test_a_delayed_response_has_the_same_bytes(play, cancel, mode):
    assert cancel(play(fault("delay", seconds=0.01), mode).url).data == cancel(play("", mode).url).data


@pytest.mark.parametrize("mode", ["channel", "verbatim"])
@pytest.mark.parametrize("code", ERROR_CODES)
def test_every_error_has_its_status(play, cancel, mode, code):
    seen = cancel(play(fault("error", code=f'"{code}"', operation='"cancel"'), mode).url)
    error = orjson.loads(seen.body)["error"]
    assert seen.head.startswith(b"HTTP/1.1 %d " % ERROR_CODES[code])
    assert (error["code"], error["request_id"]) == (code, "wiretape-1")


def test_a_busy_session_names_its_run(play, cancel):
    text = fault("error", code='"SESSION_BUSY"', fields='{ active_run_id = "run_9", active_run_status = "queued" }')
    error = orjson.loads(cancel(play(text).url).body)["error"]
    assert error["message"] == "Session s1 has an active run: run_9 is queued."
    assert (error["active_run_id"], error["active_run_status"]) == ("run_9", "queued")
    assert error["recovery"] == ["POST /v1/sessions/s1/runs/run_9/cancel", "POST /v1/sessions/s1/runs/run_9/resume"]


def test_a_rate_limit_names_the_time_to_wait(play, cancel):
    seen = cancel(play(fault("error", code='"RATE_LIMITED"', limit='"runs"', retry_after=3)).url)
    assert b"\r\nRetry-After: 3\r\n" in seen.head
    assert orjson.loads(seen.body)["error"]["details"] == {"limit": 60, "window_seconds": 60, "retry_after": 3}


def test_validation_errors_have_reasons(play, cancel):
    text = fault("error", code='"tool_result_invalid"', fields='{ details = [{ path = "a", reason = "b" }] }')
    assert orjson.loads(cancel(play(text).url).body)["error"]["details"] == [{"path": "a", "reason": "b"}]
    (reason,) = orjson.loads(cancel(play(fault("error", code='"tool_input_invalid"')).url).body)["error"]["details"]
    assert reason.keys() == {"path", "reason"}


def test_an_error_that_happens_once_is_followed_by_the_recorded_response(play, cancel):
    replay = play(fault("error", code='"RATE_LIMITED"', times=1))
    assert cancel(replay.url).head.startswith(b"HTTP/1.1 429 ")
    assert cancel(replay.url).head.startswith(b"HTTP/1.1 200 ")


def test_faults_come_before_authentication(play, call):
    client = call(play(fault("error", code='"SANDBOX_PROVISION_FAILED"')).url)
    client.ask(extra="Connection: close\r\n")
    assert client.read().head.startswith(b"HTTP/1.1 503 ")


def test_a_named_cursor_expires(play, stream, call):
    replay = play(fault("expire-cursor", cursor='"e2"'))
    assert chunks_of(stream(replay.url).body) == FRAMES
    client = call(replay.url)
    client.ask(extra=f"{KEY}Last-Event-ID: e2\r\nConnection: close\r\n")
    seen = client.read()
    assert seen.head.startswith(b"HTTP/1.1 400 ")
    assert orjson.loads(seen.body)["error"]["code"] == "invalid_cursor"
    client = call(replay.url)
    client.ask(extra=f"{KEY}Last-Event-ID: e3\r\n")
    assert client.read_past(FOUR + b"\r\n").endswith(b"\r\n\r\n%x\r\n%b\r\n" % (len(FOUR), FOUR))


def test_a_script_that_hits_nothing_changes_no_bytes(recording, play, serve, stream):
    elsewhere = fault("drop", after="{ sequence = 99 }") + "\n" + fault("drop", operation='"resume"')
    assert stream(play(elsewhere).url).data == stream(serve(recording, mode="channel").url).data


# The command.


@pytest.fixture
def run(recording, tmp_path):
    def _run(text, *options):
        path = tmp_path / "faults.toml"
        path.write_text(text, "utf-8")
        return CliRunner().invoke(wiretape, ["replay", str(recording), "--faults", str(path), *options])

    return _run


def test_the_command_lists_what_a_dry_run_would_hit(run):
    text = fault("drop", after="{ sequence = 2 }", times=1) + "\n"
    text += fault("error", code='"RATE_LIMITED"', operation='"cancel"', probability=0.5)
    result = run(text, "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "fault-1: drop (once)",
        "  session s1, position 1: after message.completed, sequence 2",
        "fault-2: error RATE_LIMITED (with probability 0.5)",
        "  may: any cancel request",
    ]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("[[fault]]", ["--dry-run"], "faults.toml: fault[0]: do is missing."),
        ("seeed = 1", [], "faults.toml: seeed: unknown key; did you mean seed?"),
    ],
)
def test_an_invalid_script_is_a_usage_error(run, text, options, message):
    result = run(text, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.endswith(message + "\n")
    assert len(result.stderr.splitlines()) == 1


def test_a_dry_run_needs_a_script(recording):
    result = CliRunner().invoke(wiretape, ["replay", str(recording), "--dry-run"])
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: --dry-run lists what a fault script would hit: add --faults FILE.\n",
    )
