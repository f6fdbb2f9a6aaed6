"""JSON that orjson does not read, or cannot write: `wiretape show` and `export` read it as the checker does."""

import json
import sys

import pytest
from invoke import succeed

from wiretape.json_codec import dump_json
from wiretape.safe_text import printable

SURROGATE = (
    r'{"type":"message.completed","id":"e1","sequence":7,"session_id":"s1","run_id":"r\udfff","content":{"x":"\ud800"}}'
)
LONG = '{"type":"message.completed","id":"e1","sequence":DIGITS,"content":{"n":DIGITS}}'
SEQUENCES = {"beyond 64 bits": 2**64 + 1, "thousand digits": 10**999 + 1, "negative": -(2**70)}
DEEP = '{"type":"message.completed","sequence":7,"content":' + "[" * 100_000 + "]" * 100_000 + "}"
TOO_LONG = '{"type":"message.completed","sequence":1' + "0" * 5_000 + "}"
OUT_OF_RANGE = '{"type":"message.completed","id":"e1","sequence":7,"content":{"n":1e999}}'
BAD_BYTE = b'{"type":"message.completed","id":"e1","sequence":7,"content":{"n":"\xff"}}'
LARGE = '{"type":"message.completed","content":"' + "é" * 5_000_000 + '"}'
VIEWS = (
    "show,show --json,show --at 1:1,show --at 1:2,show --at 1:6,show --at 1:10,channels,channels --json,"
    "export --format events,export --format tape,report --exit-zero --no-config --all"
)


@pytest.fixture
def recorded(builder):
    """A recording of one stream with these data, after a first event without any oddity."""

    def record(*data):
        first = b'id: e0\ndata: {"type":"run.started","id":"e0","sequence":1}\n\n'
        events = [b"id: e1\ndata: " + (one.encode() if isinstance(one, str) else one) + b"\n\n" for one in data]
        builder.exchange([first, *(event for event in events)])
        return builder.close()

    return record


def second(run, path, *command):
    """The object that a command writes about event 2."""
    result = succeed(*command, path)
    return next(line for line in map(json.loads, result.stdout.splitlines()) if line.get("event") == 2)


def test_a_lone_surrogate_hides_nothing_of_an_event(run, recorded):
    path = recorded(SURROGATE)
    assert "not a JSON object" not in run("show", path).stdout
    assert r'message.completed    e1  {"x":"\ud800"}' in run("show", path).stdout
    row = second(run, path, "show", "--json")
    assert (row["type"], row["sequence"], row["kind"], row["note"]) == ("message.completed", 7, "durable", "")
    assert row["run_id"] == "r\udfff"
    event = second(run, path, "export", "--format", "events")
    assert (event["kind"], event["sequence"], event["data"]["content"]) == ("durable", 7, {"x": "\ud800"})


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=list(SEQUENCES))
def test_long_integers_are_integers(run, recorded, sequence):
    path = recorded(LONG.replace("DIGITS", str(sequence)))
    shown = run("show", path).stdout.splitlines()[3]
    assert shown.split()[1] == (str(sequence) if len(str(sequence)) <= 20 else f"{str(sequence)[:19]}…")
    assert second(run, path, "show", "--json")["sequence"] == sequence
    event = second(run, path, "export", "--format", "events")
    assert (event["sequence"], event["data"]["content"]["n"]) == (sequence, sequence)
    last = json.loads(run("channels", "--json", path).stdout)["channels"][0]["last_sequence"]
    assert last == max(sequence, 1)


@pytest.mark.parametrize("data", [DEEP, TOO_LONG], ids=["deep", "too long"])
def test_unreadable_json_is_distinguished_from_invalid_json(run, recorded, data):
    path = recorded(data)
    note = "unreadable: nested too deeply, or a number is too long"
    assert f"[{note}]" in run("show", path).stdout
    assert second(run, path, "show", "--json")["note"] == note
    assert second(run, path, "export", "--format", "events")["text"] == data


def test_floats_out_of_range_stay_as_they_were(run, recorded):
    path = recorded(OUT_OF_RANGE)
    assert second(run, path, "show", "--json")["sequence"] == 7
    assert '"content":{"n":1e999}' in run("export", "--format", "events", path).stdout


def test_invalid_utf8_is_noted_and_the_rest_is_read(run, recorded):
    row = second(run, recorded(BAD_BYTE), "show", "--json")
    assert (row["type"], row["sequence"], row["note"]) == ("message.completed", 7, "not UTF-8")


@pytest.mark.parametrize("command", VIEWS.split(","))
def test_odd_json_breaks_neither_terminal_nor_json(run, recorded, command):
    sequences = [LONG.replace("DIGITS", str(sequence)) for sequence in SEQUENCES.values()]
    path = recorded(SURROGATE, *sequences, DEEP, TOO_LONG, OUT_OF_RANGE, BAD_BYTE, LARGE)
    result = run(*command.split(), path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "\n".join(map(printable, result.stdout.split("\n")))
    if "json" in command:
        texts = result.stdout.splitlines() if "channels" not in command else [result.stdout]
        assert all(isinstance(json.loads(text), dict) for text in texts)


def test_json_lines_write_whatever_a_field_holds():
    """What orjson refuses is spelt, as deep as it stands; its neighbours keep their form."""
    value = {"a": ["\ud800\x1b", 2**64, True, 1.5, None, {"b": ("é", -(2**70))}], "c": sys.maxsize}
    text = dump_json(value)
    assert text.startswith('{"a":["\\ud800\\u001b",18446744073709551616,true,1.5,null,{"b":["é",')
    assert json.loads(text) == {"a": ["\ud800\x1b", 2**64, True, 1.5, None, {"b": ["é", -(2**70)]}], "c": sys.maxsize}
    assert json.loads(dump_json(value, indent=True)) == json.loads(text)
