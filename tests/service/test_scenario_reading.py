"""Scenario files: how they are read, and the errors for files that cannot be right."""

import subprocess
import sys

import pytest
from click.testing import CliRunner
from for_each import for_each
from tables import read_tables

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


@for_each(("text", "expected"), TIMES)
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


@for_each(("cut", "pieces"), CUTS.items())
def test_a_text_is_cut_into_pieces(scenario, cut, pieces):
    (step,) = scenario(steps(f'{{ say = "a  b\\nc"{cut} }}')).runs[0].steps
    assert step.pieces == pieces


BAD = read_tables(__file__)


@for_each("bad", BAD.values(), ids=BAD)
def test_an_invalid_scenario_is_an_error_of_one_sentence(scenario, bad):
    with pytest.raises(InputError) as caught:
        scenario(bad["scenario"])
    message = str(caught.value)
    before, star, after = bad["error"].partition("*")
    middle, _, last = after.rpartition("*")
    begin = message.index("scenario.toml: ") + len("scenario.toml: ")
    problem = message[begin:]
    assert problem.startswith(before), message
    assert middle in problem
    assert problem.endswith(last)
    assert star or problem == bad["error"]
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


@for_each(("step", "key"), BOUNDS)
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
