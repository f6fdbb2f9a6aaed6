"""Fault scripts as they are read, and what is said of those that cannot be."""

import pytest

from wiretape.contract import ERROR_CODES, LIMITS
from wiretape.errors import InputError
from wiretape_replay.answers.reasons import Reason
from wiretape_replay.answers.requests import Requests
from wiretape_replay.faults.deed import Cut, Do, Pause, Refuse
from wiretape_replay.faults.kinds import KINDS
from wiretape_replay.faults.reading import read_script
from wiretape_replay.faults.script import Address, Events, Fault, Moment, Script

STREAMS = Requests.of("stream")


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def _read(text):
        path = (tmp_path / "faults.toml").relative_to(tmp_path)
        path.write_text(text, "utf-8")
        return read_script(path)

    return _read


def test_a_script_says_what_goes_wrong_and_where(read):
    script = read("""
seed = 7
[[fault]]
name = "drop-after-12"
do = "drop"
after = { sequence = 12 }
session = ["s1", "s2"]
connection = 2
skip = 3
times = 1
probability = 0.5
[[fault]]
do = "stall"
operation = ["cancel", "POST /v1/sessions/{id}/runs"]
seconds = 1.5
""")
    first = Fault(
        name="drop-after-12",
        do=Do.DROP,
        deed=Cut(),
        address=Address((STREAMS,), ("s1", "s2"), (), (2,)),
        events=Events(Moment.AFTER, sequences=(12,)),
        skip=3,
        times=1,
        probability=0.5,
    )
    second = Fault(
        name="fault-2",
        do=Do.STALL,
        deed=Pause(1_500_000_000),
        address=Address((Requests.of("cancel"), Requests.of("POST /v1/sessions/{id}/runs"))),
    )
    assert script == Script((first, second), 7)


def test_an_empty_file_is_a_script_without_faults(read):
    assert read("") == Script((), 0)


@pytest.mark.parametrize("code", ERROR_CODES)
def test_every_error_code_can_be_asked_for(read, code):
    (fault,) = read(f'[[fault]]\ndo = "error"\ncode = "{code}"\n').faults
    assert isinstance(fault.deed, Refuse)
    assert fault.deed.code == code


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
active-run = "run_9"
active-run-status = "running"
[[fault]]
do = "error"
code = "tool_result_invalid"
reasons = [{ path = "output.total", reason = "is missing" }]
""")
    assert [fault.deed for fault in script.faults] == [
        Refuse("RATE_LIMITED", limit=LIMITS["runs"], retry_after=3),
        Refuse("SESSION_BUSY", active_run="run_9", active_run_status="running"),
        Refuse("tool_result_invalid", reasons=(Reason("output.total", "is missing"),)),
    ]


BAD = {
    "misspelled key at the top": ("sed = 7", "faults.toml, line 1: sed: there is no such key, did you mean seed?"),
    "misspelled word": (
        '[[fault]]\ndo = "dorp"',
        "faults.toml, line 2: fault.do: it has to be one of drop, reset, *, not 'dorp'; did you mean drop?",
    ),
    "nothing to do": ('[[fault]]\nname = "x"', "faults.toml, line 1: fault: do is missing."),
    "misspelled key in the second fault": (
        '[[fault]]\ndo = "drop"\n\n[[fault]]\ndo = "drop"\nafter = { sequence = 1 }\ntimse = 2',
        'faults.toml, line 7: fault.timse: there is no such key where do = "drop", did you mean times?',
    ),
    "misspelled key of an event": (
        '[[fault]]\ndo = "drop"\nafter = { sequense = 12 }',
        "faults.toml, line 3: fault.after.sequense: there is no such key for an event, did you mean sequence?",
    ),
    "misspelled key of an event in a table of its own": (
        '[[fault]]\ndo = "drop"\n[fault.after]\nsequense = 12',
        "faults.toml, line 4: fault.after.sequense: there is no such key for an event, did you mean sequence?",
    ),
    "key of another kind": (
        '[[fault]]\ndo = "drop"\nseconds = 2',
        'faults.toml, line 3: fault.seconds: there is no such key where do = "drop"*',
    ),
    "event of the cancel operation": (
        '[[fault]]\ndo = "drop"\nafter = { sequence = 12 }\noperation = "cancel"',
        "faults.toml, line 4: fault.operation: events come on streams only, so it has to be stream, or to be left out.",
    ),
    "connection of the resume operation": (
        '[[fault]]\ndo = "drop"\noperation = "resume"\nconnection = 2',
        "faults.toml, line 3: fault.operation: only streams are counted as connections, *",
    ),
    "cursor of the resume operation": (
        '[[fault]]\ndo = "expire-cursor"\noperation = "resume"',
        "faults.toml, line 3: fault.operation: only streams are asked for with a cursor, *",
    ),
    "run of a stream": (
        '[[fault]]\ndo = "drop"\noperation = "stream"\nrun = "r1"',
        "faults.toml, line 4: fault.run: only the paths of cancel and resume are known to name a run.",
    ),
    "run beside an event": (
        '[[fault]]\ndo = "drop"\nrun = "r1"\nafter = { event = 1 }',
        "faults.toml, line 3: fault.run: events come on streams only, *",
    ),
    "unknown operation": (
        '[[fault]]\ndo = "drop"\noperation = "steam"',
        "faults.toml, line 3: fault.operation: *; did you mean stream?",
    ),
    "operation with a query": (
        '[[fault]]\ndo = "drop"\noperation = "GET /v1/x?y"',
        "faults.toml, line 3: fault.operation: it is none of *",
    ),
    "empty list": (
        '[[fault]]\ndo = "drop"\nsession = []',
        "faults.toml, line 3: fault.session: an empty list fits nothing; leave the key out for anything.",
    ),
    "two places": (
        '[[fault]]\ndo = "drop"\nafter = { event = 1 }\nbefore = { event = 1 }',
        "faults.toml, line 3: fault.after: before says where already, and there can be one of them only.",
    ),
    "place that is no table": (
        '[[fault]]\ndo = "drop"\nafter = 12',
        "faults.toml, line 3: fault.after: it has to be a table*",
    ),
    "corrupt after": (
        '[[fault]]\ndo = "corrupt"\nafter = { event = 1 }',
        "faults.toml, line 3: fault.after: corrupt cannot be done there; say at instead.",
    ),
    "error after an event": (
        '[[fault]]\ndo = "error"\ncode = "SESSION_BUSY"\nafter = { event = 1 }',
        "faults.toml, line 4: fault.after: error cannot be done there; it is done before there are events.",
    ),
    "no event to duplicate": (
        '[[fault]]\ndo = "duplicate"',
        "faults.toml, line 2: fault.do: duplicate is done to events; say to which, as in at = { sequence = 12 }.",
    ),
    "sequence of a delta": (
        '[[fault]]\ndo = "drop"\nafter = { type = "message.delta", sequence = 3 }',
        "faults.toml, line 3: fault.after.sequence: message.delta is ephemeral and has none.",
    ),
    "tool call of a message": (
        '[[fault]]\ndo = "drop"\nafter = { type = "message.completed", tool-call = "t" }',
        "faults.toml, line 3: fault.after.tool-call: message.completed belongs to no tool call.",
    ),
    "unknown type": (
        '[[fault]]\ndo = "drop"\nafter = { type = "tool.start" }',
        "faults.toml, line 3: fault.after.type: the service has no event type 'tool.start', did you mean tool.started?",
    ),
    "sequence that is no number": (
        '[[fault]]\ndo = "drop"\nafter = { sequence = "12" }',
        "faults.toml, line 3: fault.after.sequence: it has to be a whole number, 0 or more, or a list*, not '12'.",
    ),
    "offset without an event": (
        '[[fault]]\ndo = "drop"\noffset = 3',
        "faults.toml, line 3: fault.offset: it counts bytes of an event, so it needs at = { … }.",
    ),
    "delay without a time": ('[[fault]]\ndo = "delay"', "faults.toml, line 1: fault: seconds is missing*"),
    "negative time": (
        '[[fault]]\ndo = "stall"\nseconds = -1',
        "faults.toml, line 3: fault.seconds: it has to be a number of seconds over 0*",
    ),
    "endless time": (
        '[[fault]]\ndo = "stall"\nseconds = inf',
        "faults.toml, line 3: fault.seconds: it has to be a number of seconds over 0*",
    ),
    "never": (
        '[[fault]]\ndo = "drop"\ntimes = 0',
        "faults.toml, line 3: fault.times: it has to be a whole number, 1 or more.",
    ),
    "improbable": (
        '[[fault]]\ndo = "drop"\nprobability = 1.5',
        "faults.toml, line 3: fault.probability: it has to be a number over 0 and up to 1.",
    ),
    "code in another case": (
        '[[fault]]\ndo = "error"\ncode = "session_busy"',
        "faults.toml, line 3: fault.code: its case is exact: SESSION_BUSY.",
    ),
    "unknown code": (
        '[[fault]]\ndo = "error"\ncode = "RATE_LIMIT"',
        "faults.toml, line 3: fault.code: it has to be one of *; did you mean RATE_LIMITED?",
    ),
    "field of another code": (
        '[[fault]]\ndo = "error"\ncode = "SESSION_BUSY"\nretry-after = 3',
        "faults.toml, line 4: fault.retry-after: it belongs to RATE_LIMITED, not to SESSION_BUSY.",
    ),
    "reasons of another code": (
        '[[fault]]\ndo = "error"\ncode = "RATE_LIMITED"\nreasons = [{ path = "a", reason = "b" }]',
        "faults.toml, line 4: fault.reasons: RATE_LIMITED has details of its own, or none.",
    ),
    "half a reason": (
        '[[fault]]\ndo = "error"\ncode = "invalid_request"\nreasons = [{ path = "a" }]',
        "faults.toml, line 4: fault.reasons: reason is missing.",
    ),
    "replacement of nothing": (
        '[[fault]]\ndo = "corrupt"\nat = {}\nhow = "replace"',
        "faults.toml, line 1: fault: find is missing.",
    ),
    "key of another damage": (
        '[[fault]]\ndo = "corrupt"\nat = {}\nfind = "x"',
        'faults.toml, line 4: fault.find: it belongs to how = "replace".',
    ),
    "split nowhere": (
        '[[fault]]\ndo = "split"\nat = {}',
        "faults.toml, line 1: fault: a split needs either where (one of every-byte, utf-8, crlf) or offsets*",
    ),
    "oversize beyond all": (
        '[[fault]]\ndo = "oversize"\nat = {}\nbytes = 999_999_999_999',
        "faults.toml, line 4: fault.bytes: there can be 268,435,456 of them at most.",
    ),
    "resync with a sequence alone": (
        '[[fault]]\ndo = "resync"\nafter = {}\nsequence = 3',
        "faults.toml, line 4: fault.sequence: an event without an id is ephemeral and has none.",
    ),
    "id in two lines": (
        '[[fault]]\ndo = "resync"\nafter = {}\nid = "a\\nb"',
        "faults.toml, line 4: fault.id: a line end or NUL cannot stand in it.",
    ),
    "the same name twice": (
        '[[fault]]\nname = "a"\ndo = "drop"\n[[fault]]\nname = "a"\ndo = "drop"',
        "faults.toml, line 5: fault.name: a is the name of two faults; each needs its own.",
    ),
    "one table": ('[fault]\ndo = "drop"', "faults.toml, line 1: fault: it has to be an array of tables*"),
    "no TOML": ("seed = ", "faults.toml is not valid TOML: *"),
    "inline faults": (
        'fault = [\n{ do = "drop" },\n{ do = "dorp" },\n]',
        "faults.toml, line 3: fault.do: it has to be one of *",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_bad_script_is_refused_in_one_sentence(read, text, message):
    with pytest.raises(InputError) as refused:
        read(text)
    start, *others = message.split("*")
    said = refused.value.message
    assert said.startswith(start)
    assert all(part in said for part in others)
    assert others or said == message
    assert "\n" not in said
    assert refused.value.exit_code == 2


def test_a_script_that_is_not_there_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"There is no file .*nowhere\.toml"):
        read_script(tmp_path / "nowhere.toml")


def test_every_kind_of_fault_can_be_read():
    assert set(KINDS) == set(Do)
