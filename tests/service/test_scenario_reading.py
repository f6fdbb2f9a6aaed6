"""Scenario files: what they say, and one sentence with file, line and key where they cannot be right."""

import subprocess
import sys

import pytest

from wiretape.errors import InputError
from wiretape_replay.service.scenario.listing import find_scenario, listing, shipped
from wiretape_replay.service.scenario.steps import Ask, Text, Tool

SECOND = 1_000_000_000


def steps(text):
    return f"[[run]]\nsteps = [{text}]"


def test_five_lines_are_enough(scenario):
    read = scenario('title = "Hello"\n\n[[run]]\nsteps = [{ say = "Hello, world." }]\n')
    assert read.title == "Hello"
    (step,) = read.runs[0].steps
    assert step.pieces == ["Hello, ", "world."]


def test_steps_may_stand_in_tables_of_their_own(scenario):
    text = '[[run]]\n[[run.steps]]\ntool = "t"\n[run.steps.input]\na = 1\n[[run.steps]]\nsay = "x"'
    one, other = scenario(text).runs[0].steps
    assert (one.input, type(other)) == ({"a": 1}, Text)


def test_times_come_from_the_step_the_run_or_the_file(scenario):
    text = """
    pace = 1
    deadline = 9
    [[run]]
    pace = 2
    steps = [{ tool = "t" }, { tool = "t", pace = 3 }, { tool = "t", after = 4, takes = 5 }]
    [[run]]
    after = 7
    steps = [{ ask = "t" }, { ask = "t", deadline = 1.5 }, { ask = "t", deadline = false }, { wait-for-input = true }]
    """
    first, second = scenario(text).runs
    found = [(step.after_ns // SECOND, step.pace_ns // SECOND, step.takes_ns // SECOND) for step in first.steps]
    assert found == [(2, 2, 2), (2, 3, 3), (4, 2, 5)]
    assert (first.after_ns, first.pace_ns) == (2 * SECOND, 2 * SECOND)
    assert (second.after_ns, second.pace_ns) == (7 * SECOND, SECOND)
    assert [step.deadline_ns for step in second.steps] == [9 * SECOND, 1_500_000_000, None, None]


CUTS = {
    "": ["a  ", "b\n", "c"],
    ', cut = "words"': ["a  ", "b\n", "c"],
    ', cut = "characters"': list("a  b\nc"),
    ', cut = "lines"': ["a  b\n", "c"],
    ', cut = "whole"': ["a  b\nc"],
    ", cut = 4": ["a  b", "\nc"],
}


@pytest.mark.parametrize(("cut", "pieces"), CUTS.items())
def test_text_is_cut_into_pieces_that_make_it_up(scenario, cut, pieces):
    (step,) = scenario(steps(f'{{ say = "a  b\\nc"{cut} }}')).runs[0].steps
    assert step.pieces == pieces


BAD = {
    "no title": ("titel = 1", "line 2: titel: there is no such key, did you mean title?"),
    "a title too late": (
        steps('{ say = "x" }') + "\ntitle = 1",
        "line 4: run.title: it is said of the whole *: write it *",
    ),
    "a deadline of a tool": ("[[tool]]\ndeadline = 1", "line 3: tool.deadline: it is said of the whole scenario: *"),
    "a tool that is asked for by another name": (
        '[[tool]]\nname = "get_weather"\n' + steps('{ together = [{ ask = "get_wether" }] }'),
        "line 3: tool.name: no step asks for it, but one does for get_wether; write both alike.",
    ),
    "a misspelt table": ("[[runs]]\nsteps = []", "line 2: runs: there is no such key, did you mean run?"),
    "a table for an array": ("[run]\nsteps = []", "line 2: run: it has to be an array of tables, each under [[run]]."),
    "steps without a run": ('[[steps]]\nsay = "x"', "line 2: steps: steps stand in a run: *or tables [[run.steps]]."),
    "a step without a list": ('[[run]]\nsay = "x"', "line 3: run.say: it is a step, *: steps = [{ say = … }] under *."),
    "no runs": ("pace = 1", ": it has no runs; say what one does under [[run]]."),
    "no steps": ("[[run]]\nafter = 1", "line 2: run: steps needs a step at least, as in *"),
    "empty steps": ("[[run]]\nsteps = []", "line 3: run.steps: steps needs a step at least, as in *"),
    "no list": (
        '[[run]]\nsteps = "x"',
        'line 3: run.steps: it has to be a list of steps, as in steps = [{ say = "Hello" }].',
    ),
    "a list of texts": ('[[run]]\nsteps = ["x"]', "line 3: run.steps: it has to be a list of steps, as in *"),
    "a single step": ('[[run]]\n[run.steps]\nsay = "x"', "line 3: run.steps: it has to be a list of steps, as in *"),
    "a step that is none": (steps('\n{ say = "x" },\n{ sya = "x" }'), "line 5: run.steps.sya: *did you mean say?"),
    "an unknown step": (steps("\n{ qqqq = 1 }"), "line 4: run.steps: a step needs one of say, think, *"),
    "two steps in one": (
        steps('{ say = "x", tool = "t" }'),
        "line 3: run.steps.tool: say and tool are two steps; write { say = … }, { tool = … }.",
    ),
    "a key of another step": (
        steps('{ say = "x", takes = 1 }'),
        "line 3: *takes: there is no such key of the step say*",
    ),
    "a wait with a pace": (steps("{ wait = 1, pace = 1 }"), "line 3: *pace: there is no such key of the step wait*"),
    "a key of a run": ("[[run]]\nstep = []", "line 3: run.step: there is no such key of a run, did you mean steps?"),
    "no time": ("pace = -1", "line 2: pace: it has to be a number of seconds, 0 or more."),
    "a deadline for nothing": (
        "deadline = true",
        "line 2: deadline: it has to be a number of seconds, or false for ever.",
    ),
    "a deadline in words": (
        steps('{ ask = "t", deadline = "1 s" }'),
        "line 3: run.steps.deadline: *or false for ever.",
    ),
    "a deadline that was": (
        steps('{ ask = "t", deadline = -1 }'),
        "line 3: run.steps.deadline: *of seconds, 0 or more.",
    ),
    "a long time": (steps("{ wait = 1e9 }"), "line 3: run.steps.wait: it can be 1,000,000 seconds at most."),
    "an empty text": (steps('{ say = "" }'), "line 3: run.steps.say: it has to be a text, not an empty one."),
    "no pieces": (steps("{ say = [] }"), "line 3: run.steps.say: a list of pieces needs one at least."),
    "pieces that are cut": (steps('{ say = ["x"], cut = 1 }'), "line 3: run.steps.cut: say is a list, *"),
    "an unknown cut": (steps('{ say = "x", cut = "word" }'), "line 3: run.steps.cut: *did you mean words?"),
    "a cut of nothing": (steps('{ say = "x", cut = 0 }'), "line 3: run.steps.cut: *words, *1 or more."),
    "a cut by truth": (
        steps('{ say = "x", cut = true }'),
        "line 3: run.steps.cut: *or a number of characters, 1 or more.",
    ),
    "output and error": (steps('{ tool = "t", output = {}, error = "x" }'), "line 3: run.steps.error: *no output."),
    "a date": (steps('{ tool = "t", input = { a = [\n1, 2020-01-01] } }'), "line 4: run.steps.input.a: JSON has no *"),
    "infinity": (steps('{ tool = "t", output = { a = inf } }'), "line 3: run.steps.output.a: JSON has no *"),
    "a large number": (steps('{ tool = "t", output = { a = 99999999999999999999 } }'), "line 3: *2^53*"),
    "a sandbox": (steps('{ sandbox = "recreate" }'), "line 3: run.steps.sandbox: *did you mean recreated?"),
    "an ending": (steps('{ end-stream = "closed" }'), "line 3: run.steps.end-stream: *did you mean close?"),
    "not true": (steps("{ resync = false }"), "line 3: run.steps.resync: it has to be true."),
    "no repetition": (steps('{ repeat = 0, steps = [{ say = "x" }] }'), "line 3: run.steps.repeat: *1 or more."),
    "nothing to repeat": (steps("{ repeat = 2 }"), "line 3: run.steps: steps needs a step at least*"),
    "a step within": (steps('{ repeat = 2, steps = [\n{ sai = "x" }] }'), "line 4: run.steps.steps.sai: *mean say?"),
    "a step beside": (steps('{ together = [\n{ say = "x" },\n{ tol = "x" }] }'), "line 5: *.together.tol: *mean tool?"),
    "too many beside": (steps("{ together = [" + "{ wait = 1 }," * 51 + "] }"), "line 3: *there can be 50 of them*"),
    "too many events": (
        steps('{ repeat = 1000, steps = [{ repeat = 1000, steps = [{ say = "x" }] }] }'),
        "line 3: run.steps: they make 4,001,000 events; a run can have 100,000 at most.",
    ),
    "too long": (steps("{ repeat = 101, steps = [{ wait = 1e6 }] }"), "line 3: run.steps: they take 101,00*"),
    "too deep": (steps("{ together = [" * 9 + "{ wait = 1 }" + "] }" * 9), "line 3: *8 deep at most."),
    "a refusal": ('[[run]]\nrefuse = "SESSION_BUSY"\nsteps = [{ wait = 1 }]', "line 3: run.refuse: *one of SANDBOX_*"),
    "a refusal by number": (
        "[[run]]\nrefuse = 503\nsteps = [{ wait = 1 }]",
        'line 3: run.refuse: *table as in { code = "SANDBOX_*',
    ),
    "a refusal for true": (
        '[[run]]\nrefuse = { code = "invalid_request", times = true }\nsteps = [{ wait = 1 }]',
        "line 3: run.refuse.times: it has to be a whole number, 1 or more, or false for always.",
    ),
    "a refusal without code": ("[[run]]\nsteps = [{ wait = 1 }]\nrefuse = {}", "line 4: run.refuse: code is missing."),
    "a type that is always stored": ('ephemeral = ["tool.started"]', "line 2: ephemeral: 'tool.started' is no event *"),
    "twin tools": ('[[tool]]\nname = "a"\n[[tool]]\nname = "a"', "line 5: tool.name: it is the name of two tools; *"),
    "a schema": (
        '[[tool]]\nname = "a"\n[tool.output]\ntype = "objekt"',
        "line 5: tool.output.type: *Schema: it has to be one of array, *, or a list of them.",
    ),
    "a schema of elsewhere": (
        '[[tool]]\nname = "a"\ninput = { "$ref" = "http://127.0.0.1:9/x" }',
        "line 4: tool.input.$ref: it is no usable JSON Schema: http://127.0.0.1:9/x leads nowhere; *#/$defs/name.",
    ),
    "a schema that is none within": (
        '[[tool]]\nname = "a"\n[tool.output]\nproperties.b = [\n]',
        "line 5: tool.output.properties.b: it is no usable JSON Schema: [] is not of *",
    ),
    "a reference within that leads nowhere": (
        '[[tool]]\nname = "a"\n[tool.output.properties]\nb = { "$ref" = "#/$defs/d" }',
        "line 5: tool.output.properties.b.$ref: it is no usable JSON Schema: #/$defs/d leads nowhere; a $ref has to *",
    ),
    "a draft that is none": (
        '[[tool]]\nname = "a"\noutput = { "$schema" = "http://json-schema.org/draft-99" }',
        "line 4: tool.output.$schema: *: $schema names no draft of JSON Schema; leave it out *",
    ),
    "an input that does not fit": (
        '[[tool]]\nname = "a"\ninput = { required = ["x"] }\n[[run]]\nsteps = [\n{ ask = "a" }]',
        'line 7: run.steps.ask: the input schema of a does not allow it: input: "x" is a required property.',
    ),
    "a key of some step alone": (steps("{ input = {} }"), "line 3: run.steps: a step needs one of say, think, *"),
    "a number to say": (steps("{ say = 1 }"), "line 3: run.steps.say: it has to be a text, or a list of texts."),
    "a number for input": (
        steps('{ tool = "t", input = 1 }'),
        'line 3: run.steps.input: *in input = { city = "Lisbon" }.',
    ),
    "truth for a word": (steps("{ sandbox = true }"), "line 3: run.steps.sandbox: *, quota, not true."),
    "no TOML": ("[[run", " is not valid TOML: *"),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_what_cannot_be_right_is_told_in_one_sentence_with_its_place(scenario, text, expected):
    with pytest.raises(InputError) as caught:
        scenario(text)
    told = str(caught.value)
    before, star, after = expected.partition("*")
    middle, _, last = after.rpartition("*")
    begin = told.index("scenario.toml") + len("scenario.toml")
    rest = told[begin:].removeprefix(", ")
    assert rest.startswith(before), told
    assert middle in rest
    assert rest.endswith(last)
    assert star or rest == expected
    assert "\n" not in told


def test_a_tool_that_nobody_asks_for_yet_is_no_slip(scenario):
    text = '[[tool]]\nname = "get_weather"\n[[tool]]\nname = "get_tides"\n'
    assert len(scenario(text + steps('{ ask = "get_tides" }, { ask = "zzz" }')).tools) == 2


def test_a_title_is_needed(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(steps('{ say = "x" }'), "utf-8")
    with pytest.raises(InputError, match=r"x\.toml: title is missing; write title = .* above"):
        find_scenario(str(path))


def test_a_scenario_is_found_by_its_name_or_its_file(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('title = "Own"\n' + steps('{ ask = "x" }'), "utf-8")
    assert find_scenario(str(path)).title == "Own"
    assert find_scenario("hello").title == "A run that says hello"
    assert isinstance(find_scenario("application-tool").runs[0].steps[0], Ask)
    assert isinstance(find_scenario("tools").runs[0].steps[1], Tool)
    with pytest.raises(InputError, match=r"There is no scenario helo, did you mean hello\?"):
        find_scenario("helo")
    with pytest.raises(InputError, match=r"There is no scenario zzzzz; there are hello, .*\.$"):
        find_scenario("zzzzz")
    with pytest.raises(InputError, match=r"Say which scenario: .*--list"):
        find_scenario("")
    with pytest.raises(InputError, match=r"There is no scenario \.; there are hello"):
        find_scenario(".")
    with pytest.raises(InputError, match=r"There is no scenario x{200}…; there are hello"):
        find_scenario("x" * 5000)
    with pytest.raises(InputError, match=r"There is no file .*none\.toml"):
        find_scenario("none.toml")


def test_the_list_has_a_line_for_each_shipped_scenario():
    lines = listing().splitlines()
    assert len(lines) == len(shipped()) >= 12
    assert lines[0] == "hello             A run that says hello"
    assert [line.split()[0] for line in lines] == list(shipped())


def test_reading_a_scenario_needs_no_server():
    code = "import sys, wiretape_replay.service.scenario.listing; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
