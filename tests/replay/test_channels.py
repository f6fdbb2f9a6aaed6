"""Channels of contracts other than that of the Agent Session Service, replayed over real sockets."""

import json

import pytest
from click.testing import CliRunner
from tables import read_data
from wire_bytes import chunks_of

from wiretape.cli import wiretape
from wiretape.contract import load_contract
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.errors import InputError
from wiretape.observations import Ending
from wiretape_replay import ReplayOptions

JSON = (("Content-Type", "application/json"), ("Content-Length", "2"))
CURSOR = "Last-Event-ID: {}\r\n"


def tick(number: int) -> bytes:
    return b"id: %d\nevent: tick\ndata: %d\n\n" % (number, number)


def plain(text: str) -> bytes:
    return f"data: {text}\n\n".encode()


def items(*texts: str) -> list[bytes]:
    return [plain(text) for text in texts]


@pytest.fixture
def replayed(serve, call):
    """Replay a recording, and request streams: `get(target, cursor)` or `post(target, body)`; returns their bodies."""

    class Replayed:
        def __init__(self, path, **options):
            self.lines = []
            self.replay = serve(path, mode="channel", log=self.lines.append, **options)

        def get(self, target, cursor=None, *, staying=None):
            return self._read("GET", target, "" if cursor is None else CURSOR.format(cursor), b"", staying)

        def post(self, target, body, *, staying=None):
            return self._read("POST", target, f"Content-Length: {len(body)}\r\n", body, staying)

        def _read(self, method, target, extra, body, staying):
            client = call(self.replay.url)
            client.ask(target, method=method, extra=f"Connection: close\r\n{extra}")
            client.socket.sendall(body)
            received = client.read(staying)
            head, _, rest = received.data.partition(b"\r\n\r\n")
            status = int(head.split()[1])
            return b"".join(chunks_of(rest)) if status == 200 and b"chunked" in head else (status, rest)

    return Replayed


# Streams whose events have ids


@pytest.fixture
def ticks(builder):
    """Four ticks, a comment and an event without an id on one stream, which breaks, and the rest on another."""
    chunks = [tick(1), tick(2), plain("live"), b": note\n\n", tick(3)]
    builder.exchange(chunks, target="/ticks?topic=a", ending=Ending.SERVICE_CLOSED)
    builder.exchange([tick(3), tick(4)], target="/ticks?topic=a", request_headers=(("Last-Event-ID", "2"),))
    return builder.close()


def test_all_streams_of_a_url_are_one_channel(ticks, replayed):
    running = replayed(ticks)
    first = running.get("/ticks?topic=a")
    assert first == b"".join([tick(1), tick(2), plain("live"), b": note\n\n", tick(3)])
    assert running.get("/ticks?topic=a", "3") == tick(4)
    assert running.get("/ticks?topic=a", "1") == tick(2) + tick(3) + tick(4)
    assert list(running.replay.player.channels) == ["/ticks?topic=a"]
    assert running.replay.unconsumed == running.replay.unfollowed == []
    assert running.replay.warnings == []
    assert running.lines[0] == "GET /ticks → channel /ticks?topic=a from the beginning, playhead at 0 of 8"


def test_a_stream_without_a_cursor_begins_at_the_start_and_ends_as_recorded(ticks, replayed):
    running = replayed(ticks)
    running.get("/ticks?topic=a")
    assert running.get("/ticks?topic=a") == tick(1) + tick(2) + tick(3) + tick(4)


@pytest.mark.parametrize("cursor", ["9", "nonsense"])
def test_an_unknown_cursor_begins_at_the_start(ticks, replayed, cursor):
    running = replayed(ticks)
    running.get("/ticks?topic=a")
    assert running.get("/ticks?topic=a", cursor) == tick(1) + tick(2) + tick(3) + tick(4)
    assert f"from the beginning, because the cursor {cursor} is unknown" in running.lines[-1]


def test_a_cursor_that_the_first_stream_sends_moves_the_playhead_behind_it(ticks, replayed):
    running = replayed(ticks)
    assert running.get("/ticks?topic=a", "2") == plain("live") + b": note\n\n" + tick(3)


def test_another_query_is_another_channel(builder, replayed):
    for topic in "ab":
        builder.exchange([tick(1), plain(topic)], target=f"/ticks?topic={topic}")
    running = replayed(builder.close())
    assert running.get("/ticks?topic=b").endswith(plain("b"))
    assert running.get("/ticks?topic=a").endswith(plain("a"))
    assert running.get("/ticks?topic=c")[0] == 501
    assert running.replay.misses[0].target == "/ticks?topic=c"


def test_an_ignored_parameter_does_not_make_another_channel(builder, replayed):
    builder.exchange([tick(1)], target="/ticks?t=1", ending=Ending.SERVICE_CLOSED)
    builder.exchange([tick(2)], target="/ticks?t=2", request_headers=(("Last-Event-ID", "1"),))
    running = replayed(builder.close(), ignore_query=["t"])
    assert running.get("/ticks?t=3") == tick(1)
    assert running.get("/ticks?t=4", "1") == tick(2)


# Streams without ids


@pytest.fixture
def answers(builder):
    """Two streams of the same request, a refusal before them, and one of another request."""
    builder.exchange([b"{}"], method="POST", target="/ask", body=b'{"q": 1}', status=429, headers=JSON)
    builder.exchange(items("one", "[DONE]"), method="POST", target="/ask", body=b'{"q": 1}')
    builder.exchange(items("two", "[DONE]"), method="POST", target="/ask", body=b'{"q": 1}')
    builder.exchange(items("other", "[DONE]"), method="POST", target="/ask", body=b'{"q": 2}')
    return builder.close()


ONE, TWO, OTHER = (b"".join(items(text, "[DONE]")) for text in ("one", "two", "other"))


def test_streams_without_ids_come_in_recorded_order_and_the_last_one_again(answers, replayed):
    running = replayed(answers)
    assert running.post("/ask", b'{"q": 2}') == OTHER
    assert running.post("/ask", b'{"q":1}')[0] == 429
    assert [running.post("/ask", b'{"q": 1.0}') for _ in range(4)] == [ONE, TWO, TWO, TWO]
    assert running.post("/ask", b'{"q": 2}') == OTHER
    assert list(running.replay.player.channels) == ["/ask", "/ask#2", "/ask#3"]
    assert (running.replay.unconsumed, running.replay.unfollowed) == ([], [])


def test_a_reset_begins_with_the_first_stream_again(answers, replayed):
    running = replayed(answers)
    assert [running.post("/ask", b'{"q": 1}') for _ in range(2)][1] == ONE
    running.replay.control.reset()
    assert running.post("/ask", b'{"q": 1}')[0] == 429


@pytest.mark.parametrize(
    ("options", "outcomes"), [({"repeat": "cycle"}, [429, ONE, TWO, 429]), ({}, [429, ONE, TWO, TWO])]
)
def test_repeat_applies_to_streams_too(answers, replayed, options, outcomes):
    running = replayed(answers, **options)
    received = [running.post("/ask", b'{"q": 1}') for _ in range(4)]
    assert [each if isinstance(each, bytes) else each[0] for each in received] == outcomes


def test_each_stream_without_ids_has_a_playhead_of_its_own(builder, replayed, call):
    builder.exchange(items("a", "b"), method="POST", target="/ask", body=b"{}")
    running = replayed(builder.close(), paused=True)
    control = running.replay.control.channel("/ask")
    first, second = call(running.replay.url), call(running.replay.url)
    first.post("/ask", b"{}")
    control.wait("connected")
    control.step()
    assert first.read_past(b"data: a\n\n")
    second.post("/ask", b"{}")
    assert second.read_past(b"\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert control.channel_state().position == 0
    control.step()
    assert second.read_past(b"data: a\n\n")
    assert running.replay.control.state().channels[0].playheads == 2
    control.resume()
    for client in (first, second):
        assert client.read(b"0\r\n\r\n").data.endswith(b"data: b\n\n\r\n0\r\n\r\n")


def test_playheads_of_ended_streams_are_forgotten(builder, replayed):
    builder.exchange(items("a"), method="POST", target="/ask", body=b"{}")
    running = replayed(builder.close())
    for _ in range(20):
        assert running.post("/ask", b"{}") == plain("a")
    assert running.replay.control.channel_state().playheads <= 2


# Contracts in files

TICKETS = read_data(__file__, "tickets.toml")
RESUMED = read_data(__file__, "resumed_tickets.toml")


def ticket(number, kind="opened"):
    return plain(json.dumps({"kind": kind, "number": number}))


@pytest.fixture
def tickets(builder, tmp_path):
    """Events of a ticket with a number as the cursor, of which one is never stored."""
    (tmp_path / "tickets.toml").write_text(TICKETS, "utf-8")
    chunks = [ticket(1), ticket(2, "typing"), ticket(3, "closed")]
    builder.exchange(chunks, target="/tickets/t%201/events", ending=Ending.CLIENT_CLOSED)
    return builder.close()


def test_a_contract_in_a_file_defines_channel_cursor_and_durable_events(tickets, replayed, tmp_path):
    running = replayed(tickets, contract=tmp_path / "tickets.toml", paused=True)
    control = running.replay.control
    assert [each.channel for each in control.state().channels] == ["t 1"]
    control.seek(sequence=2)
    assert running.get("/tickets/t%201/events?after=1&x=2", staying=b"\r\n\r\n") == b""
    control.seek(end=True)
    assert running.get("/tickets/t 1/events?after=1".replace(" ", "%20"), staying=b"\n\n\r\n") == ticket(3, "closed")
    assert running.get("/tickets/t%201/events?after=2", staying=b"\n\n\r\n") == ticket(1) + ticket(3, "closed")
    assert running.get("/tickets/t%201/events", staying=b"\r\n\r\n") == b""
    assert "ticket t 1 from now on, playhead at 3 of 3" in running.lines[-1]
    assert [type(each) for each in (control.step("durable"),)] == [type(None)]


RESPONSES = read_data(__file__, "responses.toml")


def test_a_channel_that_events_name_is_created_by_one_request_and_resumed_by_another(builder, replayed, tmp_path):
    (tmp_path / "responses.toml").write_text(RESPONSES, "utf-8")

    def event(number, response):
        return plain(json.dumps({"type": "part", "number": number, "response": response}))

    for response in ("r1", "r2"):
        first = [event(1, response), event(2, response)]
        builder.exchange(first, method="POST", target="/responses", body=b"{}", ending=Ending.SERVICE_CLOSED)
        rest = [event(2, response), event(3, response)]
        builder.exchange(rest, target=f"/responses/{response}?starting_after=1")
    running = replayed(builder.close(), contract=str(tmp_path / "responses.toml"))
    assert list(running.replay.player.channels) == ["r1", "r2"]
    for response in ("r1", "r2"):
        assert running.post("/responses", b"{}") == event(1, response) + event(2, response)
        assert running.get(f"/responses/{response}?starting_after=2") == event(3, response)
    assert running.get("/responses/r3?starting_after=2")[0] == 501


# Faults


@pytest.mark.parametrize(
    ("fault", "hits"),
    [
        ({"do": "duplicate", "at": {"type": "message"}, "times": 1}, "channel /ask, position 0: at message"),
        ({"do": "drop", "before": {"event": 2}, "channel": "/ask#2"}, "channel /ask#2, position 1: before message"),
        ({"do": "drop", "after": {"id": "2"}, "operation": "GET /ticks"}, "channel /ticks, position 1: after tick"),
    ],
)
def test_a_dry_run_lists_the_events_of_channels(builder, tmp_path, fault, hits):
    for text in "ab":
        builder.exchange(items(text, "[DONE]"), method="POST", target="/ask", body=b"{}")
    builder.exchange([tick(1), tick(2)], target="/ticks")
    script = tmp_path / "faults.toml"
    inline = "\n".join(f"{key} = {_toml(value)}" for key, value in fault.items())
    script.write_text(f"[[fault]]\n{inline}\n", "utf-8")
    result = CliRunner().invoke(wiretape, ["replay", str(builder.close()), "--faults", str(script), "--dry-run"])
    assert result.stdout.splitlines()[1:] == [f"  {hits}"]


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


@pytest.mark.parametrize("numbers", [[2], [1, 3]])
def test_the_connections_of_requests_of_one_kind_are_counted_together(builder, replayed, numbers):
    for text in "ab":
        builder.exchange(items(text), method="POST", target="/ask", body=b"{}")
    fault = {"do": "duplicate", "at": {}, "connection": numbers}
    running = replayed(builder.close(), faults=fault)
    bodies = [running.post("/ask", b"{}") for _ in range(3)]
    expected = [plain(text) * (2 if number in numbers else 1) for number, text in enumerate("abb", 1)]
    assert bodies == expected
    assert f"Fault fault-1: duplicate at event 1, message (channel /ask#2, connection {max(numbers)})" in running.lines


BAD_FAULTS = {
    "operation": ({"do": "drop", "operation": "cancel"}, "expected stream, or a method and a path"),
    "entity": ({"do": "drop", "keys": {"run": "r1"}}, "unknown entity 'run': the contract sse has no entities"),
    "entity of events": ({"do": "drop", "at": {"keys": {"run": "r1"}}}, "unknown entity 'run'"),
    "code": ({"do": "error", "code": "closed"}, "unknown error code closed: the contract sse has no codes; use status"),
    "limit": ({"do": "error", "status": 429, "limit": "runs"}, "unknown limit runs"),
}


@pytest.mark.parametrize("case", BAD_FAULTS)
@pytest.mark.parametrize("contract", ["sse", None])
def test_faults_that_the_contract_has_nothing_for_are_refused(answers, serve, case, contract):
    fault, problem = BAD_FAULTS[case]
    with pytest.raises(InputError, match=problem):
        serve(answers, mode="channel", faults=fault, contract=contract)


# Options


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--contract", "ssse"], "There is no contract 'ssse'"),
        (["--contract", "none.toml"], "none.toml"),
        (["--contract", "sse", "--limits"], "There are no limits in the contract sse: leave out the option limits."),
    ],
)
def test_a_wrong_contract_is_refused(answers, arguments, problem):
    result = CliRunner().invoke(wiretape, ["replay", str(answers), *arguments])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert problem in result.stderr


def test_the_contract_sse_replays_a_session_without_the_rules_of_the_service(builder, replayed):
    builder.exchange([tick(1)], ending=Ending.CLIENT_CLOSED)
    path = builder.close()
    target = "/v1/sessions/s1/events/stream"
    assert replayed(path).get("/v1/sessions/s1/events/stream", "9")[0] == 400
    running = replayed(path, contract="sse")
    assert running.get(target, "9", staying=b"\n\n\r\n") == tick(1)
    assert running.lines[-1].startswith(f"GET {target} → channel {target} from the beginning, because")


def test_what_was_never_requested_is_listed(answers, start):
    running = start(answers, "--strict")
    assert "(3 channels and 1 other exchange)" in running.first
    assert running.stop() == 1
    assert (
        "Never requested: the stream of 3 channels.\n  stream of channel /ask\n  stream of channel /ask#2"
        in running.err
    )


def test_a_status_for_unknown_cursors_is_sent(tickets, replayed, tmp_path):
    (tmp_path / "tickets.toml").write_text(TICKETS + RESUMED, "utf-8")
    running = replayed(tickets, contract=tmp_path / "tickets.toml")
    running.replay.control.seek(end=True)
    assert running.get("/tickets/t%201/events?after=7") == (
        410,
        b"The cursor 7 names no persisted event of ticket t 1.\n",
    )
    assert running.lines[-1] == "GET /tickets/t%201/events → 410"


def test_the_configuration_names_the_contract_unless_an_option_does(tickets, start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wiretape.toml").write_text('contract = "tickets.toml"\n', "utf-8")
    names = []
    for arguments in ((), ("--contract", "sse"), ("--no-config",)):
        running = start(tickets, "--paused", "--control-token", "t", *arguments)
        state = CliRunner().invoke(wiretape, ["control", running.url, "state", "--token", "t", "--json"]).stdout
        names.append([each["channel"] for each in json.loads(state)["channels"]])
        running.stop()
    assert names == [["t 1"], ["/tickets/t%201/events"], ["/tickets/t%201/events"]]


def test_a_recording_names_its_own_contract(tmp_path, new_builder, replayed):
    (tmp_path / "tickets.toml").write_text(TICKETS, "utf-8")
    stored = dump_contracts([load_contract(str(tmp_path / "tickets.toml"))])
    builder = new_builder("own.db", contracts=stored)
    builder.exchange([ticket(1)], target="/tickets/t/events")
    assert list(replayed(builder.close()).replay.player.channels) == ["t"]


def test_options_take_a_contract_that_is_loaded():
    loaded = ReplayOptions(contract="sse").loaded_contracts
    assert ReplayOptions(contract=loaded).loaded_contracts == loaded
