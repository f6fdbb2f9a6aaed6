"""Read scenarios: decode the TOML file, and check what its types cannot express."""

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from wiretape.errors import InputError
from wiretape.input_validation import KeyPath, Problem, Source, choices_hint, validate
from wiretape.safe_text import closest_match, shorten
from wiretape.toml_files import is_toml_text, parse_toml, read_toml_text, require_table_lists
from wiretape_contracts.agent_sessions import DELTA_TYPES, EVENT_TYPES, STORED_TYPES
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import (
    STEP_TAG,
    Ask,
    Pause,
    Refuse,
    Repeat,
    Resync,
    RunScript,
    Scenario,
    Step,
    TextStep,
    Together,
    Tool,
    ToolSchemas,
    WaitForInput,
    WaitingStep,
    walk_steps,
)
from wiretape_contracts.agent_sessions.stand_in.tool_schemas import ToolSchema, UnusableSchemaError

STEP_TYPES: Mapping[str, type[Step]] = {str(step.__struct_config__.tag): step for step in get_args(Step)}
"""Every kind of step, by the key that names it."""
_SCENARIO_KEYS = ("title", "deadline", "ephemeral")
_STEP_LISTS = {"repeat": "steps", "together": "together"}
"""The keys of steps that hold steps."""
_DEEPEST_STEPS = 8
_DEEPEST_JSON = 100
_LARGEST_JSON_INT = 2**53
_MOST_EVENTS = 100_000
_LONGEST_S = 100_000_000
_UNSPECIFIED_TYPES = sorted({*EVENT_TYPES} - STORED_TYPES - DELTA_TYPES)
"""The event types for which the specification does not say whether they are stored."""


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file.  Raises InputError, naming the file and the key."""
    return _parse_scenario(read_toml_text(path), str(path))


def _parse_scenario(text: str, name: str) -> Scenario:
    """Parse the TOML text of a scenario; `name` is what error messages call it.  Raises InputError."""
    document, source = parse_toml(text, name), Source(name)
    require_table_lists(document, ("run", "tool"), source)
    scenario = validate(_tag_all_steps(document, source), Scenario, source)
    if (found := _json_problem(document, ())) is not None:
        raise source.error(*found)
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
        yield from _size_problems(run, scenario.pace if run.pace is None else run.pace, (*path, "steps"))


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
        case Ask() if step.name in schemas:
            for reason in schemas[step.name].mismatches(step.input, "input"):
                problem = f"does not allow this input: {reason.path}: {reason.reason}"
                yield ("input" if step.input else "ask",), f"the input schema of {step.name} {problem}"
        case Repeat():
            yield from _steps_problems(step.steps, ("steps",), schemas)
        case Together():
            yield from _steps_problems(step.steps, ("together",), schemas)
        case _:
            pass
    if isinstance(step, WaitingStep) and step.deadline is True:
        yield ("deadline",), "expected a number of seconds, or false for no deadline"


def _json_problem(value: object, path: KeyPath, depth: int = _DEEPEST_JSON) -> Problem | None:
    """The first part of a value that JSON cannot express; None if it can express the whole."""
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


def _size_problems(run: RunScript, pace: float, path: KeyPath) -> Iterator[Problem]:
    """Report a run that takes too long, or has too many events."""
    events, length_s = _size(run.steps, pace)
    if events > _MOST_EVENTS:
        yield path, f"{events:,} events; a run can have at most {_MOST_EVENTS:,}"
    if length_s > _LONGEST_S:
        yield path, f"{length_s:,.0f} seconds; a run can take at most {_LONGEST_S:,}"


def _size(steps: Sequence[Step], pace: float) -> tuple[int, float]:
    """How many events steps make at most, and how many seconds they take."""
    sizes = [_step_size(step, pace) for step in steps]
    return sum(events for events, _ in sizes), sum(length_s for _, length_s in sizes)


def _step_size(step: Step, pace: float) -> tuple[int, float]:
    if isinstance(step, Pause):
        return 1, step.wait
    after = pace if step.after is None else step.after
    if isinstance(step, Repeat | Together):
        events, length_s = _size(step.steps, pace)
        times = step.times if isinstance(step, Repeat) else 1
        return times * (1 + events), times * length_s + after
    count = len(step.pieces) + 2 if isinstance(step, TextStep) else 3
    takes = step.takes or 0 if isinstance(step, Tool) else 0
    return count, after + count * (pace if step.pace is None else step.pace) + takes


_SUFFIX = ".toml"


def bundled_scenarios() -> dict[str, Path]:
    """The files of the bundled scenarios by name, the simplest first."""
    folder = Path(str(files(__package__) / "scenarios"))
    # The number at the beginning of a file's name is its place in the list.
    found = sorted(folder.glob(f"*{_SUFFIX}"))
    return {path.stem.partition("-")[2]: path for path in found}


def find_scenario(scenario: object) -> Scenario:
    """Read a scenario: the name of a bundled one, a file, its TOML text, or itself.  Raises InputError."""
    if isinstance(scenario, Scenario):
        return scenario
    if isinstance(scenario, Path):
        return read_scenario(scenario)
    if not isinstance(scenario, str):
        raise InputError(
            f"Invalid scenario {scenario!r}: expected the name of a bundled scenario, a TOML file, or TOML text."
        )
    if is_toml_text(scenario):
        return _parse_scenario(scenario, "scenario")
    if not scenario:
        raise InputError("No scenario given: expected a bundled scenario (see wiretape serve --list) or a TOML file.")
    bundled = bundled_scenarios()
    if scenario in bundled:
        return read_scenario(bundled[scenario])
    if scenario.endswith(_SUFFIX) or "/" in scenario or _is_file(scenario):
        return read_scenario(Path(scenario))
    hint = choices_hint(scenario, bundled)
    raise InputError(f"Unknown scenario {shorten(scenario)}{hint}" + ("" if hint.endswith("?") else "."))


def list_scenarios() -> list[tuple[str, str]]:
    """Return the names and titles of the bundled scenarios, the simplest first."""
    return [(name, read_scenario(path).title) for name, path in bundled_scenarios().items()]


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # too long for a name
        return False
