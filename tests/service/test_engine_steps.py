"""The events of each step of a scenario, and their times."""

from for_each import for_each
from stages import document_of
from tables import read_tables

from wiretape_contracts.agent_sessions import DELTA_TYPES
from wiretape_contracts.agent_sessions.stand_in.scenario_file import STEP_TYPES
from wiretape_replay.channel.channel_log import EntryKind

TABLES = read_tables(__file__)

SECOND = 1_000_000_000
STARTED, ENDED = ["100 run.started"], ["run.completed", "session.status_idle"]

STEPS = TABLES["steps"]


def summary(entry):
    """An entry in a few words: milliseconds, type, and the text or the tool."""
    words = [str(entry.time_ns // 1_000_000)]
    document = document_of(entry)
    if document is None:
        return " ".join([*words, entry.ending])
    words.append(document["type"])
    content = document.get("content")
    if document["type"] in DELTA_TYPES:
        words.append(repr(document["delta"]["text"]))
    elif isinstance(content, list):
        words.append(repr(content[0]["text"]))
    elif content and "tool_call_id" in content:
        words.append(content["name"])
    return " ".join(words)


def run_of(steps):
    return f"pace = 0.1\n[[run]]\nsteps = [{steps}]"


@for_each(("steps", "expected", "end"), STEPS.values(), ids=STEPS)
def test_a_step_emits_its_events_on_time(engine, steps, expected, end):
    played = engine(run_of(steps))
    played.create_run({}, 0)
    lines = [summary(entry) for entry in played.advance(100 * SECOND)]

    assert lines == STARTED + expected + [f"{end} {name}" for name in ENDED]


ENDS = {
    "fail": ('{ fail = "no" }, { say = "x" }', ["200 run.failed"]),
    "sandbox quota": ('{ sandbox = "quota" }', ["200 session.error", "300 run.failed"]),
    "fail beside": (
        '{ together = [{ tool = "t", takes = 9 }, { fail = "no", after = 1 }] }',
        ["300 tool.started t", "1200 tool.failed t", "1200 run.failed"],
    ),
    "fail within": (
        '{ repeat = 3, steps = [{ tool = "t" }, { fail = "no" }] }',
        ["300 tool.started t", "400 tool.completed t", "500 run.failed"],
    ),
}


@for_each(("steps", "expected"), ENDS.values(), ids=ENDS)
def test_a_failing_step_ends_the_run(engine, steps, expected):
    played = engine(run_of(steps))
    run = played.create_run({}, 0)
    lines = [summary(entry) for entry in played.advance(100 * SECOND)]

    end = expected[-1].partition(" ")[0]
    assert lines == [*STARTED, *expected, f"{end} session.status_idle"]
    assert played.run(run.id).status == "failed"
    assert played.active is None


def test_every_kind_of_step_is_tested_here():
    tried = " ".join(steps for steps, *_ in [*STEPS.values(), *ENDS.values()])
    assert {name for name in STEP_TYPES if name in tried} == set(STEP_TYPES) - {"ask", "wait-for-input"}


def test_events_have_the_ids_of_their_session_run_and_call(engine):
    played = engine('[[run]]\nsteps = [{ tool = "t" }, { tool = "u" }]')
    run = played.create_run({}, 0)
    found = played.advance(9 * SECOND)
    documents = [document_of(entry) for entry in found]
    ids = {(document["workspace_id"], document["session_id"], document["run_id"]) for document in documents}
    assert ids == {("ws_1", "ses_1", run.id)}
    assert documents[0]["created_at"] == "2026-01-01T00:00:00.050000Z"
    calls = [entry.keys.get("tool_call") for entry in found]
    assert calls == [document["content"].get("tool_call_id") for document in documents]
    assert calls == [None, *[calls[1]] * 2, *[calls[3]] * 2, None, None]
    assert len(set(calls)) == 3


def test_ephemeral_types_have_neither_id_nor_sequence(engine):
    text = 'ephemeral = ["run.started", "agent.custom_tool_use"]\n[[run]]\nsteps = [{ ask = "w" }]'
    played = engine(text)
    played.create_run({}, 0)
    found = [(entry.kind, document_of(entry)) for entry in played.advance(SECOND)]
    assert [kind for kind, _ in found] == [EntryKind.EPHEMERAL, EntryKind.DURABLE, EntryKind.EPHEMERAL]
    assert "sequence" not in found[2][1]
    assert found[2][1]["data"]["name"] == "w"
    assert found[1][1]["sequence"] == 1


def test_the_last_script_repeats_with_new_ids(engine):
    played = engine('pace = 0\n[[run]]\nsteps = [{ say = "one" }]\n[[run]]\nsteps = [{ say = "two" }]')
    texts, runs = [], []
    for now in range(3):
        runs.append(played.create_run({}, now).id)
        found = [document_of(entry) for entry in played.advance(now)]
        texts += [document["content"][0]["text"] for document in found if document["type"] == "message.completed"]
    assert texts == ["one", "two", "two"]
    assert list(played.runs) == runs
    assert len(set(runs)) == 3


def test_ids_depend_on_seed_and_session(engine):
    text = '[[run]]\nsteps = [{ say = "x" }]'
    ids = {engine(text, **of).create_run({}, 0).id for of in ({}, {"seed": 8}, {"session_id": "ses_2"})}
    assert len(ids) == 3
    assert engine(text).create_run({}, 0).id in ids
