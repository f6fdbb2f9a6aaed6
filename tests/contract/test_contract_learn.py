"""`wiretape contract learn`: contracts from recordings of five APIs, and what they find in changed streams."""

import json
import random
import tomllib
from pathlib import Path

import pytest
from drawn_recordings import conversations, record
from event_apis import DONE, completions, record_streams, responses, runs, ticks
from hypothesis import given
from hypothesis import strategies as st
from stages import serving

from wiretape.checker import Checker, Settings
from wiretape.checker.contract_examples import check_examples
from wiretape.contract import load_contract
from wiretape.errors import InputError
from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape.traffic_builder import TrafficBuilder
from wiretape_contracts.agent_sessions.stand_in.scenario_file import find_scenario
from wiretape_inspect.learning.learner import Learner

APIS = (responses, runs, completions, ticks)
FOUND = {
    "responses": {
        *("unknown-type", "other-fields", "event-line-differs", "sequence-number-gap", "response-id-changes"),
        *("other-first-event", "other-last-event", "output-item-out-of-order", "output-item-not-closed"),
        *("response-out-of-order", "response-not-closed", "content-part-out-of-order", "content-part-not-closed"),
        *("content-part-text-differs", "content-part-text-differs-2"),
    },
    "runs": {
        *("unknown-type", "other-fields", "run-id-changes", "thread-id-changes", "other-first-event"),
        *("other-last-event", "run-out-of-order", "run-not-closed", "step-out-of-order", "step-not-closed"),
        *("text-message-out-of-order", "text-message-not-closed", "tool-call-out-of-order", "tool-call-not-closed"),
    },
    "completions": {
        *("unknown-type", "other-fields", "id-changes", "model-changes", "other-first-event", "other-last-event")
    },
    "ticks": {"unknown-type", "other-fields", "no-id", "id-gap", "number-gap"},
    "stand-in": {
        *("unknown-type", "other-fields", "event-line-differs", "no-id", "unusual-id", "id-differs-from-id-line"),
        *("sequence-gap", "content-number-gap", "session-id-differs-from-channel", "other-first-event"),
        *("tool-out-of-order", "message-out-of-order", "run-out-of-order", "run-text-differs", "run-text-differs-2"),
    },
}
"""The rules that are found in each API, besides those that are comments."""


def streams_of(api, number=5, seed=1):
    rng = random.Random(seed)
    return [api(rng, f"{seed}{index}") for index in range(number)]


def learned(run, *recordings, output="my.toml"):
    """Learn a contract, and check that it does what its examples say and finds nothing where it was learned."""
    result = run("contract", "learn", *recordings, "-o", output)
    assert result.exit_code == 0, result.output
    tested = run("contract", "test", output)
    assert tested.exit_code == 0, tested.output
    for recording in recordings:
        report = run("report", recording, "--contract", output, "--fail-on", "note")
        assert report.exit_code == 0, report.output
    return tomllib.loads(Path(output).read_text("utf-8"))


@pytest.mark.parametrize("api", APIS)
def test_the_rules_of_an_api_are_found_in_any_order_of_its_recordings(run, api):
    files = [record_streams(Path(f"{seed}.db"), api, streams_of(api, 4, seed)) for seed in (1, 2)]
    contract = learned(run, *files)
    assert {rule["name"] for rule in contract["rule"]} == FOUND[api.__name__]
    text = Path("my.toml").read_bytes()
    assert run("contract", "learn", *files[::-1], "-o", "my.toml", "--force").exit_code == 0
    assert Path("my.toml").read_bytes() == text
    more = record_streams(Path("more.db"), api, streams_of(api, 8, 4))
    assert run("contract", "learn", more, "--update", "my.toml").output == "0 rules contradicted, 0 additions.\n"


async def test_the_rules_of_the_stand_in_are_found(run, tmp_path):
    async with serving(find_scenario("tools"), tmp_path, virtual=True) as stage:
        for _ in range(3):
            session = await stage.session()
            stream = await stage.stream(session)
            for _ in range(3):
                await stage.run(session)
                await stream.until("session.status_idle")
            stream.close()
    (file,) = tmp_path.glob("passed-*.db")
    contract = learned(run, file)
    assert {rule["name"] for rule in contract["rule"]} == FOUND["stand-in"]
    assert contract["operations"]["get-events-stream"] == {
        "request": "GET /v1/sessions/{session}/events/stream",
        "cursor": "header:Last-Event-ID",
        "channel": "{session}",
        "begins": "start",
    }
    assert contract["entity"]["tool"]["opens"] == "tool.started"


def change(events, type_, **fields):
    """Change the last event of a type."""
    index = max(index for index, event in enumerate(events) if event != DONE and event["type"] == type_)
    return [*events[:index], {**events[index], **fields}, *events[index + 1 :]]


def without(events, type_):
    """Leave out the last event of a type, and count on."""
    index = max(index for index, event in enumerate(events) if event != DONE and event["type"] == type_)
    after = [
        each if each == DONE else {**each, "sequence_number": each["sequence_number"] - 1}
        for each in events[index + 1 :]
    ]
    return [*events[:index], *after]


PLANTED = {
    "a renamed type": (lambda e: change(e, "response.output_text.done", type="response.text"), "unknown-type"),
    "a gap in the counter": (lambda e: change(e, "response.completed", sequence_number=99), "sequence-number-gap"),
    "a constant that changes": (
        lambda e: change(e, "response.completed", response={**e[-2]["response"], "id": "resp_other"}),
        "response-id-changes",
    ),
    "no first event": (lambda e: without(e, "response.created"), "other-first-event"),
    "no last event": (lambda e: e[:-1], "other-last-event"),
    "an item that is not closed": (lambda e: without(e, "response.output_item.done"), "output-item-not-closed"),
    "a part that is not closed": (lambda e: without(e, "response.content_part.done"), "content-part-not-closed"),
    "another text": (lambda e: change(e, "response.output_text.done", text="other"), "content-part-text-differs-2"),
    "a number as a text": (lambda e: change(e, "response.output_text.delta", delta=7), "other-fields"),
    "no field": (
        lambda e: [
            {key: value for key, value in each.items() if key != "item"} if each != DONE else each for each in e
        ],
        "other-fields",
    ),
}


def test_planted_changes_are_found(run):
    streams = streams_of(responses)
    learned(run, record_streams(Path("run.db"), responses, streams))
    for name, (plant, expected) in PLANTED.items():
        changed = record_streams(Path("changed.db"), responses, [plant(streams[0])])
        report = json.loads(run("report", changed, "--contract", "my.toml", "--format", "json").stdout)
        names = {rule["code"]: rule["name"] for rule in report["rules"]}
        assert expected in {names[finding["code"]] for finding in report["findings"]}, name
        Path("changed.db").unlink()


def test_a_missing_id_is_found(run):
    learned(run, record_streams(Path("run.db"), ticks, streams_of(ticks)))
    changed = record_streams(
        Path("changed.db"), ticks, [b'id: 1\nevent: tick\ndata: {"number": 1}\n\nevent: tick\ndata: {"number": 2}\n\n']
    )
    assert "no-id" in run("report", changed, "--contract", "my.toml").output


def test_an_update_reports_what_is_contradicted_and_adds_what_is_new(run):
    learned(run, record_streams(Path("run.db"), responses, streams_of(responses)))
    text = "# Ours.\n" + Path("my.toml").read_text("utf-8")
    Path("my.toml").write_text(text, "utf-8")
    streams = [change(events, "response.created", trace="abc") for events in streams_of(responses, 4, 9)]
    streams[0] = streams[0][:-1]
    more = {"type": "response.queued", "sequence_number": 0, "eta": 1}
    for index, events in enumerate(streams):
        counted = [
            each if each == DONE else {**each, "sequence_number": each["sequence_number"] + 1} for each in events
        ]
        streams[index] = [counted[0] | {"sequence_number": 0}, more | {"sequence_number": 1}, *counted[1:]]
    new = record_streams(Path("new.db"), responses, streams)
    result = run("contract", "learn", new, "--update", "my.toml")
    assert result.exit_code == 1
    assert Path("my.toml").read_text("utf-8") == text
    page = Path(__file__).parents[2].joinpath("docs", "learn.md").read_text("utf-8")
    assert f"```text\n{result.output}```" in page
    assert run("contract", "learn", new, "--update", "my.toml", "-o", "my.toml").exit_code == 2
    assert run("contract", "learn", new, "--update", "my.toml", "-o", "my.toml", "--force").exit_code == 1
    assert Path("my.toml").read_text("utf-8").startswith("# Ours.\n# Learned")
    assert run("contract", "test", "my.toml").exit_code == 0
    again = run("contract", "learn", new, "--update", "my.toml").output
    assert again.endswith("1 rule contradicted, 0 additions.\n")
    assert "Expected `[DONE]` last" in again


@pytest.mark.parametrize(
    ("recordings", "message"),
    [
        (["missing.db"], "There is no file missing.db."),
        (["rubbish.db"], "is not a wiretape recording"),
        (["plain.db"], "The recordings have no event stream to learn from: record a request that opens one."),
    ],
)
def test_what_cannot_be_learned_from_is_said_in_one_sentence(run, recordings, message):
    Path("rubbish.db").write_bytes(b"\0rubbish" * 100)
    traffic = TrafficBuilder()
    traffic.request("GET", "/v1/models").respond(json={})
    traffic.write("plain.db")
    result = run("contract", "learn", *recordings, "-o", "my.toml")
    assert result.exit_code == 2
    assert message in result.output
    assert not Path("my.toml").exists()


def test_tables_between_braces_are_not_added_to(run):
    file = record_streams(Path("run.db"), ticks, streams_of(ticks))
    Path("my.toml").write_text(
        'contract = "my"\nevent = { type = "event" }\noperations = { a = { request = "GET /b" } }\n'
    )
    result = run("contract", "learn", file, "--update", "my.toml")
    assert result.exit_code == 2
    assert 'my.toml has operations between braces, where no table can be added: write a table [operations."NAME"]' in (
        result.output
    )


HOSTILE = (
    *('quo"te', "new\nline", "es\\cape", "\x1b[2J", "*", "a*b", "'''\"\"\"", "\u202e", "\x7f", "\x85", "# [x]", "é"),
    *("x" * 400, "", "a.b.c", "type"),
)


def test_hostile_names_are_escaped_or_left_out(run):
    for place in ("type", "other"):
        streams = []
        for index in range(4):
            events = [
                {
                    "type": name if place == "type" else "x",
                    name: name,
                    "id": f"{index}",
                    "deep": [[[[[[{name: 1}]]]]]],
                    "long": "x" * 9000,
                }
                for name in HOSTILE
            ]
            streams.append("".join(f"data: {json.dumps(each)}\n\n" for each in events).encode())
        streams[3] += b'data: {"type": "\\ud800", "\\ud800": 1}\n\ndata: ' + b"[" * 100_000 + b"\n\n"
        path = record_streams(Path(f"{place}.db"), runs, streams)
        contract = learned(run, path, output=f"{place}.toml")
        assert set(contract["operations"]["post-agent"]) == {"request"}
        assert "other-fields" in {rule["name"] for rule in contract["rule"]}
        assert "\x1b" not in Path(f"{place}.toml").read_text("utf-8")


EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["a.start", "a.delta", "a.end", "b", "x*", "done"])},
    optional={
        "n": st.integers(0, 5),
        "key": st.sampled_from(["k1", "k2", 3]),
        "text": st.sampled_from(["", "x", "xy"]),
        "inner": st.dictionaries(
            st.sampled_from(["a", "b/c", "~", "0"]), st.none() | st.integers() | st.text(max_size=3)
        ),
    },
)
BLOCKS = st.tuples(st.none() | st.sampled_from(["1", "2", "x", "é"]), st.none() | st.just("b"), EVENTS)


@st.composite
def api_traffic(draw):
    """Draw traffic whose streams have much in common."""
    traffic = TrafficBuilder()
    common = draw(st.lists(BLOCKS, max_size=4))
    for _ in range(draw(st.integers(1, 4))):
        method, target = draw(st.sampled_from([("GET", "/x/7"), ("GET", "/x/8?after=1"), ("POST", "/y")]))
        exchange = traffic.request(method, target, headers=draw(st.sampled_from([{}, {"Last-Event-ID": "1"}])))
        stream = exchange.respond_stream()
        for identity, name, event in [*common, *draw(st.lists(BLOCKS, max_size=4))]:
            lines = [f"id: {identity}\n"] if identity else []
            lines += [f"event: {name}\n"] if name else []
            stream.send("".join([*lines, f"data: {json.dumps(event)}\n\n"]).encode())
        stream.end(draw(st.sampled_from([Ending.COMPLETE, Ending.COMPLETE, Ending.CLIENT_CLOSED])))
    return traffic.observations()


@given(api_traffic() | conversations(has_secrets=False), st.sampled_from([1, 3]))
def test_a_learned_contract_has_no_finding_where_it_was_learned(tmp_path_factory, seen, least):
    folder = tmp_path_factory.mktemp("learned")
    record(folder / "run.db", seen)
    with open_recording(folder / "run.db") as recording:
        try:
            text = Learner([recording], least).new_contract("my")
        except InputError:
            return
        (folder / "my.toml").write_text(text, "utf-8")
        contract = load_contract(str(folder / "my.toml"))
        assert [result.problem for result in check_examples(contract) if result.problem] == []
        checker = Checker(Settings(contracts=(contract,)))
        found = [each.code for one in recording.observations() for each in checker.feed(one)]
        found += [each.code for each in checker.finish()]
        assert [code for code in found if not contract.catalogue[code].everywhere] == []
