"""What a contract says about its service, in replays: refusals, limits, deltas on request, entities and rules."""

import json

import httpx
import orjson
import pytest
from click.testing import CliRunner
from tables import read_data

from wiretape.cli import wiretape
from wiretape.contract import load_contract
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.observations import Ending
from wiretape_replay import ReplayOptions, serve_replay
from wiretape_replay.client_verdict.client_checker import ClientChecker

CHAT = read_data(__file__, "chat.toml")
TICKETS = read_data(__file__, "closed_tickets.toml")


def event(number, type_, **more):
    document = {"type": type_, **({} if number is None else {"n": number}), **more}
    return b"data: %b\n\n" % orjson.dumps(document)


EVENTS = [
    event(1, "message.started", message=7),
    event(None, "text.part", message=7, text="Hi"),
    event(2, "message.finished", message=7),
]


@pytest.fixture
def contracts(tmp_path):
    """The files of the two contracts."""
    paths = [tmp_path / "chat.toml", tmp_path / "tickets.toml"]
    for path, text in zip(paths, (CHAT, TICKETS), strict=True):
        path.write_text(text, "utf-8")
    return paths


@pytest.fixture
def recording(new_builder, contracts):
    """A chat, a message, and a ticket, with both contracts."""
    builder = new_builder("run.db", contracts=dump_contracts([load_contract(str(path)) for path in contracts]))
    builder.exchange(EVENTS, target="/chats/a/events?deltas=yes", ending=Ending.CLIENT_CLOSED)
    for _ in range(2):
        headers = (("Content-Type", "application/json"), ("Content-Length", "2"))
        builder.exchange([b"{}"], method="POST", target="/chats/a/messages/7", headers=headers)
    builder.exchange([b"event: opened\ndata: 1\n\n"], target="/tickets/1/log")
    return builder.close()


@pytest.fixture
def get(serve, call):
    """Replay the recording, and return a function for requests, of which streams end with the given bytes."""

    def start(path, **options):
        lines = []
        replay = serve(path, mode="channel", log=lines.append, **options)

        def get(target, staying=None, method="GET"):
            client = call(replay.url)
            extra = "Content-Length: 0\r\n" if method == "POST" else ""
            client.ask(target, method=method, extra=f"Connection: close\r\n{extra}")
            return client.read(staying)

        get.replay, get.lines = replay, lines
        return get

    return start


def test_each_request_belongs_to_its_own_contract(recording, get):
    ask = get(recording)
    assert EVENTS[0] in ask("/chats/a/events", staying=EVENTS[2] + b"\r\n").body
    assert b"event: opened" in ask("/tickets/1/log").body
    assert [line.partition(",")[0] for line in ask.lines] == [
        "GET /chats/a/events → chat a from the beginning",
        "GET /tickets/1/log → ticket 1 from the beginning",
    ]
    assert (ask("/tickets/2/log").head.split()[1], ask("/chats/b/events").head.split()[1]) == (b"501", b"404")


def test_deltas_are_sent_only_to_streams_that_ask_for_them(recording, get):
    ask = get(recording)
    assert EVENTS[1] in ask("/chats/a/events?deltas=YES", staying=EVENTS[2] + b"\r\n").body
    ask.replay.control.channel("a").reset()
    assert EVENTS[1] not in ask("/chats/a/events?deltas=no", staying=EVENTS[2] + b"\r\n").body


def test_requests_are_refused_with_the_codes_of_the_contract(recording, get):
    ask = get(recording, limits=True)
    refused = [ask("/chats/b/events"), ask("/chats/a/events?after=9")]
    assert ask("/chats/a/messages/7", method="POST").head.startswith(b"HTTP/1.1 200 ")
    limited = ask("/chats/a/messages/7", method="POST")
    assert [json.loads(each.body) for each in refused] == [
        {"code": "unknown_chat", "text": "There is no chat b.", "chat": "b"},
        {"code": "gone", "text": "The cursor 9 names no persisted event of chat a."},
    ]
    document = json.loads(limited.body)
    assert (document.pop("text")[:9], document) == ("More than", {"code": "slow_down", "wait": 60})
    assert b"\r\nRetry-After: 60\r\nChat-Wait: 60\r\n" in limited.head
    assert ask.lines[:2] == ["GET /chats/b/events → 404 unknown_chat", "GET /chats/a/events → 410 gone"]


def test_faults_use_the_codes_and_the_entities_of_the_contract(recording, get):
    faults = [
        {"do": "error", "code": "closed", "operation": "send", "keys": {"message": "7"}, "fields": {"by": "Ada"}},
        {"do": "insert", "type": "chat.moved", "sequence": 9, "id": "9", "data": {"to": "b"}, "after": {"sequence": 1}},
        {"do": "drop", "after": {"keys": {"message": "7"}, "type": "message.finished"}},
    ]
    ask = get(recording, faults=faults)
    closed = ask("/chats/a/messages/7", method="POST")
    assert json.loads(closed.body) == {"code": "closed", "text": "closed", "by": "Ada", "message": "7"}
    stream = ask("/chats/a/events")
    assert stream.how == "closed"
    assert b'data: {"n":9,"type":"chat.moved","chat":"a","message":"7","to":"b"}\n\n' in stream.body
    assert list(ask.replay.faults.counts.values()) == [1, 1, 1]


def test_a_breakpoint_names_an_entity_of_the_contract(recording, get):
    control = get(recording, paused=True).replay.control.channel("a")
    control.add_breakpoint(keys={"message": "7"})
    control.resume()
    result = CliRunner().invoke(wiretape, ["control", "http://127.0.0.1:1", "break", "--key", "message"])
    assert "expected NAME=KEY, got 'message'" in result.stderr
    assert control.breakpoints[0].keys == {"message": "7"}


async def test_the_client_verdict_has_the_rules_of_the_contract(recording, tmp_path):
    checker = ClientChecker(record=tmp_path / "client.db")
    options = ReplayOptions(speed="max")
    async with serve_replay(recording, options, checker=checker) as replay, httpx.AsyncClient() as client:
        await client.post(f"{replay.url}/chats/a/messages/7")
        await client.post(f"{replay.url}/chats/a/messages/7", headers={"Chat-Version": "2"})
        await client.get(f"{replay.url}/tickets/1/log")
    assert [(each.code, each.exchange) for each in checker.attribution.client.kept] == [("CHT001", 1)]
    assert [(each.code, each.exchange) for each in checker.attribution.service.kept] == [("TIC001", 3)]
    report = CliRunner().invoke(wiretape, ["report", str(tmp_path / "client.db"), "--select", "CHT001,TIC001"])
    assert ("CHT001" in report.stdout, "TIC001" in report.stdout) == (True, True)
