"""Scenario files: how they are read, and the errors for files that cannot be right."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from wiretape.errors import InputError
from wiretape_contracts.agent_sessions.stand_in.scenario_file import bundled_scenarios, find_scenario
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import Ask, Say, Tool
from wiretape_replay.commands.serve import serve

SECOND = 1_000_000_000


def steps(text):
    return f"[[run]]\nsteps = [{text}]"


def test_five_lines_are_enough(scenario):
    read = scenario('title = "Hello"\n\n[[run]]\nsteps = [{ say = "Hello, world." }]\n')
    assert read.title == "Hello"
    (step,) = read.runs[0].steps
    assert step.pieces == ["Hello, ", "world."]


def test_steps_can_be_tables_of_their_own(scenario):
    text = '[[run]]\n[[run.steps]]\ntool = "t"\n[run.steps.input]\na = 1\n[[run.steps]]\nsay = "x"'
    one, other = scenario(text).runs[0].steps
    assert (one.input, type(other)) == ({"a": 1}, Say)


TIMES = [
    ('steps = [{ tool = "t" }, { tool = "t", pace = 3 }]', [1, 2, 3, 4, 7, 8, 8]),
    ('pace = 2\nsteps = [{ tool = "t" }, { tool = "t", after = 4, takes = 5 }]', [2, 4, 6, 10, 15, 17, 17]),
    ('after = 7\nsteps = [{ ask = "a" }]', [7, 8, 9, 18, 18, 18]),
    ('steps = [{ ask = "a", deadline = 1.5 }]', [1, 2, 3, 4.5, 4.5, 4.5]),
    ('steps = [{ ask = "a", deadline = false }]', [1, 2, 3]),
    ("steps = [{ wait-for-input = true }]", [1]),
]
"""Runs, and the seconds of their events."""


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_times_are_taken_from_the_step_the_run_or_the_file(engine, text, expected):
    played = engine(f"pace = 1\ndeadline = 9\n[[run]]\n{text}")
    played.create_run({}, 0)
    assert [entry.time_ns / SECOND for entry in played.advance(1000 * SECOND)] == expected


CUTS = {
    "": ["a  ", "b\n", "c"],
    ', cut = "words"': ["a  ", "b\n", "c"],
    ', cut = "characters"': list("a  b\nc"),
    ', cut = "lines"': ["a  b\n", "c"],
    ', cut = "whole"': ["a  b\nc"],
    ", cut = 4": ["a  b", "\nc"],
}


@pytest.mark.parametrize(("cut", "pieces"), CUTS.items())
def test_a_text_is_cut_into_pieces(scenario, cut, pieces):
    (step,) = scenario(steps(f'{{ say = "a  b\\nc"{cut} }}')).runs[0].steps
    assert step.pieces == pieces


RUN = "\n[[run]]\nsteps = [{ wait = 1 }]"
BAD = {
    "a misspelled title": ("titel = 1", "titel: unknown key; did you mean title?"),
    "a title after a run": (
        steps('{ say = "x" }') + "\ntitle = 1",
        "run[0].title: title belongs to the whole scenario: put it above the first [[run]].",
    ),
    "a deadline of a tool": ("[[tool]]\ndeadline = 1", "tool[0].deadline: deadline belongs to the whole scenario: *"),
    "a tool that a step asks for by another name": (
        '[[tool]]\nname = "get_weather"\n' + steps('{ together = [{ ask = "get_wether" }] }'),
        "tool[0].name: no step asks for get_weather, but one asks for get_wether.",
    ),
    "a table for a list": ("[run]\nsteps = []", "run: expected a list of tables: write [[run]] instead of [run]."),
    "steps without a run": ('[[steps]]\nsay = "x"', "steps: steps belong to a run: *, or [[run.steps]]."),
    "a step without a list": ('[[run]]\nsay = "x"', "run[0].say: say is a step: write steps = [{ say = … }] under *"),
    "no runs": ("pace = 1", "run is missing."),
    "steps that are not a list": (
        '[[run]]\nsteps = "x"',
        'run[0].steps: expected a list of steps, for example steps = [{ say = "Hello" }].',
    ),
    "a misspelled step": (steps('{ say = "x" }, { sya = "x" }'), "run[0].steps[1].sya: *did you mean say?"),
    "an unknown step": (steps("{ qqqq = 1 }"), "run[0].steps[0]: a step needs one of say, think, *"),
    "two steps in one": (
        steps('{ say = "x", tool = "t" }'),
        "run[0].steps[0].tool: say and tool are two steps: write { say = … }, { tool = … }.",
    ),
    "a key of another step": (
        steps('{ say = "x", takes = 1 }'),
        "run[0].steps[0].takes: unknown key of the step say; choose one of after, pace, say, cut.",
    ),
    "a wait with a pace": (steps("{ wait = 1, pace = 1 }"), "run[0].steps[0].pace: unknown key of the step wait*"),
    "a deadline of true": (
        "deadline = true" + RUN,
        "deadline: expected a number of seconds, or false for no deadline.",
    ),
    "pieces that are cut": (
        steps('{ say = ["x"], cut = 1 }'),
        "run[0].steps[0].cut: cut does not apply to a list of texts*",
    ),
    "output and error": (
        steps('{ tool = "t", output = {}, error = "x" }'),
        "run[0].steps[0].error: a call that fails has no output.",
    ),
    "a date": (steps('{ tool = "t", input = { a = [1, 2020-01-01] } }'), "run[0].steps[0].input.a[1]: JSON cannot *"),
    "infinity": (steps('{ tool = "t", output = { a = inf } }'), "run[0].steps[0].output.a: JSON cannot represent *"),
    "a large number": (steps('{ tool = "t", output = { a = 99999999999999999999 } }'), "run[0].steps[0].*2^53."),
    "a resync of false": (steps("{ resync = false }"), "run[0].steps[0].resync: expected true."),
    "input that is not waited for": (steps("{ wait-for-input = false }"), "run[0].steps[0].wait-for-input: expected *"),
    "a misspelled parallel step": (
        steps('{ together = [{ say = "x" }, { tol = "x" }] }'),
        "run[0].steps[0].together[1].tol: unknown step; did you mean tool?",
    ),
    "too many parallel steps": (
        steps("{ together = [" + "{ wait = 1 }," * 51 + "] }"),
        "run[0].steps[0].together: expected a list of at most 50 items.",
    ),
    "too many events": (
        steps('{ repeat = 1000, steps = [{ repeat = 1000, steps = [{ say = "x" }] }] }'),
        "run[0].steps: 4,001,000 events; a run can have at most 100,000.",
    ),
    "a run that is too long": (
        steps("{ repeat = 101, steps = [{ wait = 1e6 }] }"),
        "run[0].steps: 101,000,000 seconds; a run can take at most 100,000,000.",
    ),
    "steps that are too deep": (
        steps("{ together = [" * 9 + "{ wait = 1 }" + "] }" * 9),
        "run[0].*at most 8 levels deep.",
    ),
    "an unknown refusal": (
        '[[run]]\nrefuse = "SESSION_BUSY"\nsteps = [{ wait = 1 }]',
        "run[0].refuse: expected one of SANDBOX_PROVISION_FAILED, tool_input_invalid, invalid_request, got *",
    ),
    "a refusal for true": (
        '[[run]]\nrefuse = { code = "invalid_request", times = true }\nsteps = [{ wait = 1 }]',
        "run[0].refuse.times: expected a whole number of at least 1, or false for always.",
    ),
    "a type that is always stored": (
        'ephemeral = ["tool.started"]' + RUN,
        "ephemeral[0]: 'tool.started' is not an event type that may be ephemeral; *",
    ),
    "two tools with one name": (
        '[[tool]]\nname = "a"\n[[tool]]\nname = "a"' + RUN,
        "tool[1].name: two tools have the name a.",
    ),
    "an invalid schema": (
        '[[tool]]\nname = "a"\n[tool.output]\ntype = "objekt"' + RUN,
        "tool[0].output.type: invalid JSON Schema: expected one of array, *, or a list of them.",
    ),
    "a reference to another document": (
        '[[tool]]\nname = "a"\ninput = { "$ref" = "http://127.0.0.1:9/x" }' + RUN,
        "tool[0].input: invalid JSON Schema: *http://127.0.0.1:9/x is not part of the schema.",
    ),
    "a reference that does not exist": (
        '[[tool]]\nname = "a"\n[tool.output.properties]\nb = { "$ref" = "#/$defs/d" }' + RUN,
        "tool[0].output: invalid JSON Schema: Pointer '/$defs/d' does not exist.",
    ),
    "an unknown draft": (
        '[[tool]]\nname = "a"\noutput = { "$schema" = "http://json-schema.org/draft-99" }' + RUN,
        "tool[0].output: invalid JSON Schema: Unknown meta-schema: 'http://json-schema.org/draft-99'*",
    ),
    "an input that does not match": (
        '[[tool]]\nname = "a"\ninput = { required = ["x"] }\n[[run]]\nsteps = [\n{ ask = "a" }]',
        'run[0].steps[0].ask: the input schema of a does not allow this input: input: "x" is a required property.',
    ),
    "a key without a step": (steps("{ input = {} }"), "run[0].steps[0]: a step needs one of say, think, *"),
    "the name of the tag": (steps('{ say = "x", "(step)" = "tool" }'), "run[0].steps[0].(step): unknown key."),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_an_invalid_scenario_is_an_error_of_one_sentence(scenario, text, expected):
    with pytest.raises(InputError) as caught:
        scenario(text)
    message = str(caught.value)
    before, star, after = expected.partition("*")
    middle, _, last = after.rpartition("*")
    begin = message.index("scenario.toml: ") + len("scenario.toml: ")
    problem = message[begin:]
    assert problem.startswith(before), message
    assert middle in problem
    assert problem.endswith(last)
    assert star or problem == expected
    assert "\n" not in message


BOUNDS = [
    ('{ say = "" }', "say"),
    ("{ say = [] }", "say"),
    ('{ say = "x", cut = 0 }', "cut"),
    ('{ say = "x", cut = "word" }', "cut"),
    ("{ wait = -1 }", "wait"),
    ("{ wait = 1e9 }", "wait"),
    ('{ ask = "t", deadline = -1 }', "deadline"),
    ('{ ask = "t", deadline = "1 s" }', "deadline"),
    ('{ ask = "t", unavailable = -1 }', "unavailable"),
    ("{ wait-for-input = true, deadline = true }", "deadline"),
    ('{ repeat = 0, steps = [{ say = "x" }] }', "repeat"),
    ('{ sandbox = "recreate" }', "sandbox"),
    ('{ end-stream = "closed" }', "end-stream"),
    ('{ tool = "t", input = 1 }', "input"),
    ('{ fail = "" }', "fail"),
]


@pytest.mark.parametrize(("step", "key"), BOUNDS)
def test_the_error_of_an_invalid_value_names_its_key(scenario, step, key):
    with pytest.raises(InputError, match=rf": run\[0\]\.steps\[0\]\.{key}: expected "):
        scenario(steps(step))


def test_a_tool_that_no_step_asks_for_is_allowed(scenario):
    text = '[[tool]]\nname = "get_weather"\n[[tool]]\nname = "get_tides"\n'
    assert len(scenario(text + steps('{ ask = "get_tides" }, { ask = "zzz" }')).tools) == 2


def test_a_title_is_required(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(steps('{ say = "x" }'), "utf-8")
    with pytest.raises(InputError, match=r"x\.toml: title is missing\.$"):
        find_scenario(str(path))


def test_a_scenario_is_found_by_its_name_or_file(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('title = "Own"\n' + steps('{ ask = "x" }'), "utf-8")
    assert find_scenario(str(path)).title == "Own"
    assert find_scenario("hello").title == "A run that says hello"
    assert isinstance(find_scenario("application-tool").runs[0].steps[0], Ask)
    assert isinstance(find_scenario("tools").runs[0].steps[1], Tool)
    with pytest.raises(InputError, match=r"Unknown scenario helo; did you mean hello\?"):
        find_scenario("helo")
    with pytest.raises(InputError, match=r"Unknown scenario zzzzz; choose one of hello, .*\.$"):
        find_scenario("zzzzz")
    with pytest.raises(InputError, match=r"No scenario given: .*--list"):
        find_scenario("")
    with pytest.raises(InputError, match=r"Unknown scenario \.; choose one of hello"):
        find_scenario(".")
    with pytest.raises(InputError, match=r"Unknown scenario x{200}…; choose one of hello"):
        find_scenario("x" * 5000)
    with pytest.raises(InputError, match=r"There is no file .*none\.toml"):
        find_scenario("none.toml")


def test_the_list_has_a_line_for_each_bundled_scenario():
    lines = CliRunner().invoke(serve, ["--list"]).output.splitlines()
    assert len(lines) == len(bundled_scenarios()) >= 12
    assert lines[0] == "hello                A run that says hello"
    assert [line.split()[0] for line in lines] == list(bundled_scenarios())


def test_reading_a_scenario_needs_no_server():
    code = "import sys, wiretape_contracts.agent_sessions.stand_in.scenario_file; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_run_with_an_input_is_for_runs_that_are_created_with_it(scenario):
    read = scenario(
        '[[run]]\nsteps = [{ say = "first" }]\n[[run]]\ninput = "x"\nsteps = [{ say = "x" }]\n'
        '[[run]]\nsteps = [{ say = "last" }]\n'
    )
    first, chosen, last = read.runs
    assert [read.script(number) for number in (1, 2, 3)] == [first, last, last]
    assert [read.script(2, given) for given in ("x", "y", {"x": 1})] == [chosen, last, last]


def test_some_run_has_no_input(scenario):
    with pytest.raises(InputError, match="run: every run has an input: add a run without"):
        scenario('[[run]]\ninput = "x"\nsteps = [{ say = "x" }]\n')
