"""Fault scripts: how they are read, and the errors for scripts that cannot be right."""

from typing import get_args

import pytest
from service_contracts import SERVICE

from wiretape.errors import InputError
from wiretape_replay.faults.fault_script import Drop, Error, EventFilter, Fault, FaultScript, Stall
from wiretape_replay.server_options import fault_script


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def _read(text):
        path = (tmp_path / "faults.toml").relative_to(tmp_path)
        path.write_text(text, "utf-8")
        return fault_script(path, SERVICE)

    return _read


def test_a_script_is_read_as_faults(read):
    script = read("""
seed = 7
[[fault]]
name = "drop-after-12"
do = "drop"
after = { sequence = 12 }
channel = ["s1", "s2"]
connection = 2
skip = 3
times = 1
probability = 0.5
[[fault]]
do = "stall"
operation = ["cancel", "POST /v1/sessions/{id}/runs"]
seconds = 1.5
""")
    drop = Drop(
        name="drop-after-12",
        after=EventFilter(sequence=12),
        channel=("s1", "s2"),
        connection=2,
        skip=3,
        times=1,
        probability=0.5,
    )
    stall = Stall(name="fault-2", operation=("cancel", "POST /v1/sessions/{id}/runs"), seconds=1.5)
    assert script == FaultScript(faults=(drop, stall), seed=7)
    assert drop.requests == ("stream",)
    assert stall.requests == ("cancel", "POST /v1/sessions/{id}/runs")


def test_an_empty_file_is_a_script_without_faults(read):
    assert read("") == FaultScript(faults=(), seed=0)


def test_an_error_takes_the_fields_of_its_code(read):
    script = read("""
[[fault]]
do = "error"
code = "RATE_LIMITED"
limit = "runs"
retry-after = 3
[[fault]]
do = "error"
code = "SESSION_BUSY"
fields = { active_run_id = "run_9", active_run_status = "running" }
[[fault]]
do = "error"
status = 503
message = "Come back later."
""")
    busy = {"active_run_id": "run_9", "active_run_status": "running"}
    assert script.faults == (
        Error(name="fault-1", code="RATE_LIMITED", limit="runs", retry_after=3),
        Error(name="fault-2", code="SESSION_BUSY", fields=busy),
        Error(name="fault-3", status=503, message="Come back later."),
    )


BAD = {
    "misspelled key at the top": ("sed = 7", "sed: unknown key; did you mean seed?"),
    "misspelled action": (
        '[[fault]]\ndo = "dorp"',
        "fault[0].do: expected one of drop, reset, *, got 'dorp'; did you mean drop?",
    ),
    "no action": ('[[fault]]\nname = "x"', "fault[0]: do is missing."),
    "misspelled key in the second fault": (
        '[[fault]]\ndo = "drop"\n\n[[fault]]\ndo = "drop"\nafter = { sequence = 1 }\ntimse = 2',
        'fault[1].timse: unknown key where do = "drop"; did you mean times?',
    ),
    "misspelled key of an event": (
        '[[fault]]\ndo = "drop"\nafter = { sequense = 12 }',
        "fault[0].after.sequense: unknown key; did you mean sequence?",
    ),
    "misspelled key of an event in its own table": (
        '[[fault]]\ndo = "drop"\n[fault.after]\nsequense = 12',
        "fault[0].after.sequense: unknown key; did you mean sequence?",
    ),
    "key of another action": (
        '[[fault]]\ndo = "drop"\nseconds = 2',
        'fault[0].seconds: unknown key where do = "drop"*',
    ),
    "event of the cancel operation": (
        '[[fault]]\ndo = "drop"\nafter = { sequence = 12 }\noperation = "cancel"',
        "fault[0].operation: only streams have events: use stream, or leave operation out.",
    ),
    "connection of the resume operation": (
        '[[fault]]\ndo = "drop"\noperation = "resume"\nconnection = 2',
        "fault[0].operation: only streams are counted as connections: use stream, or leave operation out.",
    ),
    "cursor of the resume operation": (
        '[[fault]]\ndo = "expire-cursor"\noperation = "resume"',
        "fault[0].operation: only streams take a cursor: use stream, or leave operation out.",
    ),
    "run of a stream": (
        '[[fault]]\ndo = "drop"\noperation = "stream"\nkeys = { run = "r1" }',
        "fault[0].keys.run: only the paths of cancel and resume name a run.",
    ),
    "run next to an event": (
        '[[fault]]\ndo = "drop"\nkeys = { run = "r1" }\nafter = { event = 1 }',
        "fault[0].keys.run: only streams have events, and their paths do not name a run; *",
    ),
    "unknown operation": (
        '[[fault]]\ndo = "drop"\noperation = "steam"',
        "fault[0].operation: expected stream, cancel, *, got 'steam'; did you mean stream?",
    ),
    "operation with a query": (
        '[[fault]]\ndo = "drop"\noperation = "GET /v1/x?y"',
        "fault[0].operation: expected stream, *, or a method and a path such as POST /v1/items, got 'GET /v1/x?y'.",
    ),
    "empty list": ('[[fault]]\ndo = "drop"\nchannel = []', "fault[0].channel: expected a non-empty list."),
    "two positions": (
        '[[fault]]\ndo = "drop"\nafter = { event = 1 }\nbefore = { event = 1 }',
        "fault[0].after: before is also given; use only one of them.",
    ),
    "position that is not a table": (
        '[[fault]]\ndo = "drop"\nafter = 12',
        "fault[0].after: expected a table, got 12.",
    ),
    "corrupt after": (
        '[[fault]]\ndo = "corrupt"\nafter = { event = 1 }',
        "fault[0].after: corrupt cannot be applied here: use at.",
    ),
    "error after an event": (
        '[[fault]]\ndo = "error"\ncode = "SESSION_BUSY"\nafter = { event = 1 }',
        "fault[0].after: error cannot be applied here: it happens before any event.",
    ),
    "no event to duplicate": (
        '[[fault]]\ndo = "duplicate"',
        "fault[0].do: duplicate applies to events; name them, for example at = { sequence = 12 }.",
    ),
    "sequence of a delta": (
        '[[fault]]\ndo = "drop"\nafter = { type = "message.delta", sequence = 3 }',
        "fault[0].after.sequence: message.delta is ephemeral and has no sequence.",
    ),
    "tool call of a message": (
        '[[fault]]\ndo = "drop"\nafter = { type = "message.completed", keys = { tool_call = "t" } }',
        "fault[0].after.keys.tool_call: message.completed does not belong to a tool_call.",
    ),
    "unknown type": (
        '[[fault]]\ndo = "drop"\nafter = { type = "tool.start" }',
        "fault[0].after.type: unknown event type 'tool.start'; did you mean tool.started?",
    ),
    "sequence that is not a number": (
        '[[fault]]\ndo = "drop"\nafter = { sequence = "12" }',
        "fault[0].after.sequence: expected a whole number or a list, got '12'.",
    ),
    "offset without an event": (
        '[[fault]]\ndo = "drop"\noffset = 3',
        "fault[0].offset: offset counts bytes of an event, so it needs at = { … }.",
    ),
    "delay without a time": ('[[fault]]\ndo = "delay"', "fault[0]: seconds is missing."),
    "negative time": (
        '[[fault]]\ndo = "stall"\nseconds = -1',
        "fault[0].seconds: expected a number greater than 0, got -1.",
    ),
    "endless time": ('[[fault]]\ndo = "stall"\nseconds = inf', "fault[0].seconds: expected a number of at most *"),
    "time that is not a number": ('[[fault]]\ndo = "stall"\nseconds = nan', "fault[0].seconds: expected a number *"),
    "never": ('[[fault]]\ndo = "drop"\ntimes = 0', "fault[0].times: expected a whole number of at least 1, got 0."),
    "more than 64 bits": ('[[fault]]\ndo = "drop"\nskip = 99999999999999999999', "fault[0].skip: expected *"),
    "improbable": (
        '[[fault]]\ndo = "drop"\nprobability = 1.5',
        "fault[0].probability: expected a number of at most 1, got 1.5.",
    ),
    "code in another case": (
        '[[fault]]\ndo = "error"\ncode = "session_busy"',
        "fault[0].code: unknown error code session_busy; codes are case-sensitive: use SESSION_BUSY.",
    ),
    "unknown code": (
        '[[fault]]\ndo = "error"\ncode = "RATE_LIMIT"',
        "fault[0].code: unknown error code RATE_LIMIT; did you mean RATE_LIMITED?",
    ),
    "unknown limit": (
        '[[fault]]\ndo = "error"\ncode = "RATE_LIMITED"\nlimit = "run"',
        "fault[0].limit: unknown limit run; did you mean runs?",
    ),
    "field of another code": (
        '[[fault]]\ndo = "error"\ncode = "SESSION_BUSY"\nretry-after = 3',
        "fault[0].retry-after: retry-after belongs to RATE_LIMITED, not to SESSION_BUSY.",
    ),
    "error without a code": ('[[fault]]\ndo = "error"', "fault[0]: error needs either code or status."),
    "fields of a status": (
        '[[fault]]\ndo = "error"\nstatus = 503\nfields = { a = 1 }',
        "fault[0].fields: fields are for an error with a code.",
    ),
    "unknown entity": (
        '[[fault]]\ndo = "drop"\nat = { keys = { rum = "r1" } }',
        "fault[0].at.keys.rum: unknown entity 'rum'; did you mean run?",
    ),
    "replacement of nothing": ('[[fault]]\ndo = "corrupt"\nat = {}\nhow = "replace"', "fault[0]: find is missing."),
    "key of another damage": (
        '[[fault]]\ndo = "corrupt"\nat = {}\nfind = "x"',
        'fault[0].find: find requires how = "replace".',
    ),
    "split without offsets": (
        '[[fault]]\ndo = "split"\nat = {}',
        "fault[0]: split needs either where (every-byte, utf-8, crlf) or offsets, for example [10, 20].",
    ),
    "too much padding": (
        '[[fault]]\ndo = "oversize"\nat = {}\nbytes = 999_999_999_999',
        "fault[0].bytes: expected a whole number of at most 268435456, got 999999999999.",
    ),
    "inserted event with a sequence only": (
        '[[fault]]\ndo = "insert"\ntype = "stream.resync"\nafter = {}\nsequence = 3',
        "fault[0].sequence: an event without an id is ephemeral and has no sequence.",
    ),
    "id of two lines": (
        '[[fault]]\ndo = "insert"\ntype = "stream.resync"\nafter = {}\nid = "a\\nb"',
        "fault[0].id: expected a string without line ends and NUL.",
    ),
    "name of two lines": (
        '[[fault]]\ndo = "drop"\nname = "a\\nb"',
        "fault[0].name: expected a string without line ends and NUL.",
    ),
    "the same name twice": (
        '[[fault]]\nname = "a"\ndo = "drop"\n[[fault]]\nname = "a"\ndo = "drop"',
        "fault[1].name: two faults have the name a.",
    ),
    "one table": ('[fault]\ndo = "drop"', "fault: expected a list of tables: write [[fault]] instead of [fault]."),
    "inline faults": (
        'fault = [\n{ do = "drop" },\n{ do = "dorp" },\n]',
        "fault[1].do: expected one of *; did you mean drop?",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_an_invalid_script_is_an_error_of_one_sentence(read, text, message):
    with pytest.raises(InputError) as refused:
        read(text)
    start, *others = message.split("*")
    error = refused.value.message
    assert error.startswith(f"faults.toml: {start}")
    assert all(part in error for part in others)
    assert others or error == f"faults.toml: {message}"
    assert "\n" not in error


def test_a_syntax_error_is_explained(read):
    with pytest.raises(InputError, match=r"^faults\.toml is not valid TOML: .* \(at the end, line 1\)\.$"):
        read("seed = ")


def test_a_script_can_be_written_in_python():
    script = FaultScript(faults=(Drop(after=EventFilter(type="tool.*")), Stall()))
    assert [fault.name for fault in script.faults] == ["fault-1", "fault-2"]
    with pytest.raises(TypeError):
        Drop("drop")


def test_every_fault_has_its_own_action():
    actions = [fault.__struct_config__.tag for fault in get_args(Fault)]
    assert len(set(actions)) == len(actions) == 12
