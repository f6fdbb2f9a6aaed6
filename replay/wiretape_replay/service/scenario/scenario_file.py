"""Read scenarios: decode the TOML file, and check what its types cannot express."""

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from wiretape.contract import EVENT_TYPES, Durability
from wiretape.errors import InputError
from wiretape.input_validation import KeyPath, Problem, Source, choices_hint, validate
from wiretape.safe_text import closest_match, shorten
from wiretape.toml_files import parse_toml, read_toml, require_table_lists
from wiretape_replay.service.scenario.scenario_steps import (
    STEP_TAG,
    Ask,
    Refuse,
    Repeat,
    Resync,
    RunScript,
    Scenario,
    Step,
    TextStep,
    TimedStep,
    Together,
    Tool,
    ToolSchemas,
    WaitForInput,
    to_ns,
    walk_steps,
)
from wiretape_replay.service.scenario.tool_schemas import ToolSchema, UnusableSchemaError

STEP_TYPES: Mapping[str, type[Step]] = {str(step.__struct_config__.tag): step for step in get_args(Step)}
"""Every kind of step, by the key that names it."""
_SCENARIO_KEYS = ("title", "deadline", "ephemeral")
_STEP_LISTS = {"repeat": "steps", "together": "together"}
"""The keys of steps that hold steps."""
_DEEPEST_STEPS = 8
_DEEPEST_JSON = 50
_LARGEST_JSON_INT = 2**53
_MOST_EVENTS = 100_000
_LONGEST_S = 100_000_000
_UNSPECIFIED_TYPES = sorted(name for name, row in EVENT_TYPES.items() if row.durability is Durability.NOT_SHOWN)
"""The event types for which the specification does not say whether they are stored."""


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file.  Raises InputError, naming the file and the key."""
    return decode_scenario(read_toml(path), str(path))


def parse_scenario(text: str, name: str = "scenario") -> Scenario:
    """Parse the TOML text of a scenario; `name` is what error messages call it.  Raises InputError."""
    return decode_scenario(parse_toml(text, name), name)


def decode_scenario(document: Mapping[str, Any], name: str) -> Scenario:
    """Decode the document of a scenario; `name` is what error messages call it.  Raises InputError."""
    source = Source(name)
    require_table_lists(document, ("run", "tool"), source)
    scenario = validate(_tag_all_steps(document, source), Scenario, source)
    for path, problem in _problems(scenario):
        raise source.error(path, problem)
    return scenario


# Steps are recognised by a key such as `say`; decoding needs a tag.


def _tag_all_steps(document: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Return the document with a tag in every step.  Raises InputError where a table is not one step."""
    _check_placement(document, (), source)
    tagged = dict(document)
    for name in ("run", "tool"):
        tables = document.get(name)
        if not isinstance(tables, Sequence) or isinstance(tables, str):
            continue
        for index, table in enumerate(tables):
            _check_placement(table, (name, index), source)
        if name == "run":
            tagged[name] = [
                _tag_steps_of(run, "steps", (name, index), source, _DEEPEST_STEPS) for index, run in enumerate(tables)
            ]
    return tagged


def _check_placement(table: object, path: KeyPath, source: Source) -> None:
    """Raise InputError for keys that belong elsewhere in the file."""
    for key in table if isinstance(table, Mapping) else ():
        if key in _SCENARIO_KEYS and path:
            raise source.error((*path, key), f"{key} belongs to the whole scenario: put it above the first [[run]]")
        if key == "steps" and path[:1] != ("run",):
            raise source.error((*path, key), "steps belong to a run: write steps = […] under [[run]], or [[run.steps]]")
        if key in STEP_TYPES and (path or key != "tool"):
            raise source.error((*path, key), f"{key} is a step: write steps = [{{ {key} = … }}] under [[run]]")


def _tag_steps_of(table: Any, key: str, path: KeyPath, source: Source, depth: int) -> Any:
    """Return a table with a tag in every step of the list at `key`."""
    if not isinstance(table, Mapping) or key not in table:
        return table
    steps = table[key]
    if not isinstance(steps, list) or not steps or not all(isinstance(step, Mapping) for step in steps):
        raise source.error((*path, key), f'expected a list of steps, for example {key} = [{{ say = "Hello" }}]')
    if depth < 0:
        raise source.error((*path, key), f"steps can be nested at most {_DEEPEST_STEPS} levels deep")
    return {**table, key: [_tag_step(step, (*path, key, index), source, depth) for index, step in enumerate(steps)]}


def _tag_step(step: Mapping[str, Any], path: KeyPath, source: Source, depth: int) -> Any:
    names = [name for name in STEP_TYPES if name in step]
    if STEP_TAG in step:
        raise source.error((*path, STEP_TAG), "unknown key")
    if not names:
        raise _no_step_error(step, path, source)
    if len(names) > 1:
        one, other = names[:2]
        raise source.error((*path, other), f"{one} and {other} are two steps: write {{ {one} = … }}, {{ {other} = … }}")
    name = names[0]
    tagged = {**step, STEP_TAG: name}
    return _tag_steps_of(tagged, _STEP_LISTS[name], path, source, depth - 1) if name in _STEP_LISTS else tagged


def _no_step_error(step: Mapping[str, Any], path: KeyPath, source: Source) -> InputError:
    known = {key for kind in STEP_TYPES.values() for key in kind.__struct_encode_fields__}
    for key in step:
        similar = None if key in known else closest_match(str(key), STEP_TYPES)
        if similar is not None:
            return source.error((*path, key), f"unknown step; did you mean {similar}?")
    return source.error(path, f"a step needs one of {', '.join(STEP_TYPES)}")


# What types cannot express.


def _problems(scenario: Scenario) -> Iterator[Problem]:
    """What cannot be right, in the order in which it is reported."""
    if scenario.deadline is True:
        yield ("deadline",), "expected a number of seconds, or false for no deadline"
    for index, name in enumerate(scenario.ephemeral):
        if name not in _UNSPECIFIED_TYPES:
            hint = choices_hint(name, _UNSPECIFIED_TYPES)
            yield ("ephemeral", index), f"{shorten(repr(name), 60)} is not an event type that may be ephemeral{hint}"
    yield from _tool_problems(scenario)
    schemas = {tool.name: ToolSchema(tool.input) for tool in scenario.tools}
    if all(run.input is not None for run in scenario.runs):
        yield ("run",), "every run has an input: add a run without input, for requests with any other input"
    for index, run in enumerate(scenario.runs):
        path = ("run", index)
        if isinstance(run.refuse, Refuse) and run.refuse.times is True:
            yield (*path, "refuse", "times"), "expected a whole number of at least 1, or false for always"
        yield from _steps_problems(run.steps, (*path, "steps"), schemas)
        yield from _size_problems(run, (*path, "steps"))


def _tool_problems(scenario: Scenario) -> Iterator[Problem]:
    names: set[str] = set()
    asked = {step.name for run in scenario.runs for step in walk_steps(run.steps) if isinstance(step, Ask)}
    unknown = sorted(asked - {tool.name for tool in scenario.tools})
    for index, tool in enumerate(scenario.tools):
        path = ("tool", index)
        yield from _schema_problems(tool, path)
        if tool.name in names:
            yield (*path, "name"), f"two tools have the name {shorten(tool.name)}"
        names.add(tool.name)
        if tool.name not in asked and (similar := closest_match(tool.name, unknown)):
            yield (*path, "name"), f"no step asks for {shorten(tool.name)}, but one asks for {shorten(similar)}"


def _schema_problems(tool: ToolSchemas, path: KeyPath) -> Iterator[Problem]:
    for key, schema in (("input", tool.input), ("output", tool.output)):
        if (problem := _json_problem(schema, (*path, key))) is not None:
            yield problem
            return
        try:
            ToolSchema(schema)
        except UnusableSchemaError as error:
            yield (*path, key, *error.path), f"invalid JSON Schema: {error}"
            return


def _steps_problems(steps: Sequence[Step], path: KeyPath, schemas: Mapping[str, ToolSchema]) -> Iterator[Problem]:
    for index, step in enumerate(steps):
        for inner, problem in _step_problems(step, schemas):
            yield (*path, index, *inner), problem


def _step_problems(step: Step, schemas: Mapping[str, ToolSchema]) -> Iterator[Problem]:
    match step:
        case TextStep() if step.cut is not None and not isinstance(step.text, str):
            yield ("cut",), "cut does not apply to a list of texts: leave it out"
        case Tool() if step.error is not None and step.output is not None:
            yield ("error",), "a call that fails has no output"
        case WaitForInput(wait_for_input=False) | Resync(resync=False):
            yield (str(step.__struct_config__.tag),), "expected true"
        case Ask():
            yield from _ask_problems(step, schemas)
        case Repeat():
            yield from _steps_problems(step.steps, ("steps",), schemas)
        case Together():
            yield from _steps_problems(step.steps, ("together",), schemas)
        case _:
            pass
    if isinstance(step, Ask | WaitForInput) and step.deadline is True:
        yield ("deadline",), "expected a number of seconds, or false for no deadline"
    for key in ("input", "output"):
        if (problem := _json_problem(getattr(step, key, None), (key,))) is not None:
            yield problem


def _ask_problems(step: Ask, schemas: Mapping[str, ToolSchema]) -> Iterator[Problem]:
    if step.name not in schemas or _json_problem(step.input, ()) is not None:
        return
    for reason in schemas[step.name].mismatches(step.input, "input"):
        key = "input" if step.input else "ask"
        yield (key,), f"the input schema of {step.name} does not allow this input: {reason.path}: {reason.reason}"


def _json_problem(value: object, path: KeyPath, depth: int = _DEEPEST_JSON) -> Problem | None:
    """What in a value JSON cannot express."""
    match value:
        case dict() | list() if depth == 0:
            return path, "nested too deeply"
        case dict() | list():
            items = value.items() if isinstance(value, dict) else enumerate(value)
            problems = (_json_problem(item, (*path, step), depth - 1) for step, item in items)
            return next((problem for problem in problems if problem is not None), None)
        case None | str() | bool():
            return None
        case int():
            return None if abs(value) <= _LARGEST_JSON_INT else (path, "JSON cannot represent whole numbers over 2^53")
        case float() if math.isfinite(value):
            return None
    return path, "JSON cannot represent this value; write it as a string"


def _size_problems(run: RunScript, path: KeyPath) -> Iterator[Problem]:
    """Report a run that takes too long, or has too many events."""
    events, length_ns = _size(run.steps)
    if events > _MOST_EVENTS:
        yield path, f"{events:,} events; a run can have at most {_MOST_EVENTS:,}"
    if length_ns > to_ns(_LONGEST_S):
        yield path, f"{length_ns // to_ns(1):,} seconds; a run can take at most {_LONGEST_S:,}"


def _size(steps: Sequence[Step]) -> tuple[int, int]:
    """How many events steps make at most, and how many nanoseconds they take."""
    sizes = [_step_size(step) for step in steps]
    return sum(events for events, _ in sizes), sum(length_ns for _, length_ns in sizes)


def _step_size(step: Step) -> tuple[int, int]:
    if isinstance(step, Repeat | Together):
        events, length_ns = _size(step.steps)
        times = step.times if isinstance(step, Repeat) else 1
        return times * (1 + events), times * length_ns + step.after_ns
    count = len(step.pieces) + 2 if isinstance(step, TextStep) else 3
    pace_ns = step.pace_ns if isinstance(step, TimedStep) else 0
    takes_ns = step.takes_ns if isinstance(step, Tool) else 0
    return count, step.after_ns + count * pace_ns + takes_ns


_SUFFIX = ".toml"


def shipped_scenarios() -> dict[str, Path]:
    """The files of the bundled scenarios by name, the simplest first."""
    folder = Path(str(files(__package__) / "shipped"))
    # The number at the beginning of a file's name is its place in the list.
    found = sorted(folder.glob(f"*{_SUFFIX}"))
    return {path.stem.partition("-")[2]: path for path in found}


def find_scenario(name: str) -> Scenario:
    """Read the bundled scenario of that name, or a file.  Raises InputError."""
    return read_scenario(find_scenario_path(name))


def find_scenario_path(name: str) -> Path:
    """The file of the bundled scenario of that name, or the file that is named.  Raises InputError."""
    if not name:
        raise InputError("No scenario given: expected a bundled scenario (see wiretape serve --list) or a TOML file.")
    path = shipped_scenarios().get(name)
    if path is not None:
        return path
    if name.endswith(_SUFFIX) or "/" in name or _is_file(name):
        return Path(name)
    hint = choices_hint(name, shipped_scenarios())
    raise InputError(f"Unknown scenario {shorten(name)}{hint}" + ("" if hint.endswith("?") else "."))


def scenario_list() -> str:
    """The output of `wiretape serve --list`: a line for each bundled scenario, with its name and title."""
    paths = shipped_scenarios()
    width = max(map(len, paths))
    return "".join(f"{name:{width}}  {read_scenario(path).title}\n" for name, path in paths.items())


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # too long for a name
        return False
