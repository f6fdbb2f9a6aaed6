"""What each kind of step takes, and how it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wiretape.errors import InputError
from wiretape.observations import Ending
from wiretape.safe_text import closest_match
from wiretape.toml import Table
from wiretape_replay.service.engine.schemas import Shape
from wiretape_replay.service.scenario.steps import (
    RUN_FAILED,
    SESSION_ERROR,
    Ask,
    EndStream,
    Fail,
    Pause,
    Repeat,
    Resync,
    Sandbox,
    SandboxDo,
    SessionError,
    Step,
    Text,
    Together,
    Tool,
    Voice,
    WaitForInput,
)
from wiretape_replay.service.scenario.values import deadline, duration, json_object, pieces

ENDINGS = {"close": Ending.SERVICE_CLOSED, "reset": Ending.SERVICE_RESET, "end": Ending.COMPLETE}
_DEEPEST = 8
_MOST_TOGETHER = 50


@dataclass(frozen=True, slots=True)
class Around:
    """What holds for a step that says nothing else, and what it can refer to."""

    pace_ns: int
    deadline_ns: int | None
    inputs: Mapping[str, Shape]
    """What the registered application tools take, by their names."""
    depth: int = _DEEPEST
    """So deep steps can stand within steps."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of step."""

    read: "Callable[[Table, str, Around, dict[str, int]], Step]"
    """Given the step, its key, what is around it, and its times."""
    keys: tuple[str, ...] = ()
    """What it takes besides."""


def read_steps(table: Table, around: Around, key: str = "steps") -> list[Step]:
    """The steps that a key holds.  Raises InputError."""
    written = table.values.get(key, [])
    if not isinstance(written, list) or not all(isinstance(item, dict) for item in written):
        raise table.wrong(key, f"it has to be a list of steps, as in {_like(key)}")
    if not written:
        raise table.wrong(key if key in table else None, f"{key} needs a step at least, as in {_like(key)}")
    return [_step(place, around) for place in table.tables(key)]


def _like(key: str) -> str:
    return f'{key} = [{{ say = "Hello" }}]'


def _step(table: Table, around: Around) -> Step:
    found = [name for name in KINDS if name in table]
    if not found:
        raise _no_step(table)
    if len(found) > 1:
        one, other = found[:2]
        raise table.wrong(other, f"{one} and {other} are two steps; write {{ {one} = … }}, {{ {other} = … }}")
    name = found[0]
    kind = KINDS[name]
    timing = () if name == "wait" else ("after", "pace")
    table.only([name, *timing, *kind.keys], f"key of the step {name}")
    ns = duration(table, "pace", around.pace_ns)
    return kind.read(table, name, around, {"after_ns": duration(table, "after", around.pace_ns), "pace_ns": ns})


def _no_step(table: Table) -> InputError:
    beside = {"after", "pace", *(key for kind in KINDS.values() for key in kind.keys)}
    for key in table:
        if key not in beside and (similar := closest_match(key, KINDS)):
            return table.wrong(key, f"there is no such step, did you mean {similar}?")
    return table.wrong(None, f"a step needs one of {', '.join(KINDS)}")


def _inner(table: Table, key: str, around: Around) -> list[Step]:
    """The steps that stand within a step."""
    if around.depth == 0:
        raise table.wrong(key, f"steps can stand within steps {_DEEPEST} deep at most")
    return read_steps(table, replace(around, depth=around.depth - 1), key)


def _text(table: Table, key: str, _around: Around, times: Mapping[str, int]) -> Step:
    return Text(voice=Voice(key), pieces=pieces(table, key), **times)


def _tool(table: Table, key: str, _around: Around, times: Mapping[str, int]) -> Step:
    if "error" in table and "output" in table:
        raise table.wrong("error", "a call that fails has no output")
    return Tool(
        name=table.text(key),
        input=json_object(table, "input"),
        output=json_object(table, "output"),
        error=table.text("error") if "error" in table else None,
        takes_ns=duration(table, "takes", times["pace_ns"]),
        **times,
    )


def _ask(table: Table, key: str, around: Around, times: Mapping[str, int]) -> Step:
    name, given = table.text(key), json_object(table, "input")
    if name in around.inputs:
        for reason in around.inputs[name].reasons(given, "input"):
            why = f"the input schema of {name} does not allow it: {reason.path}: {reason.reason}"
            raise table.wrong("input" if "input" in table else key, why)
    until = deadline(table, around.deadline_ns)
    return Ask(name=name, input=given, deadline_ns=until, unavailable=table.integer("unavailable", 0), **times)


def _wait_for_input(table: Table, key: str, _around: Around, times: Mapping[str, int]) -> Step:
    _true(table, key)
    return WaitForInput(deadline_ns=deadline(table, None), unavailable=table.integer("unavailable", 0), **times)


def _pause(table: Table, key: str, _around: Around, _times: Mapping[str, int]) -> Step:
    return Pause(after_ns=duration(table, key, 0))


def _sandbox(table: Table, key: str, _around: Around, times: Mapping[str, int]) -> Step:
    return Sandbox(do=SandboxDo(table.one_of(key, list(SandboxDo))), **times)


def _resync(table: Table, key: str, _around: Around, times: Mapping[str, int]) -> Step:
    _true(table, key)
    return Resync(**times)


def _error(table: Table, key: str, _around: Around, times: Mapping[str, int]) -> Step:
    return SessionError(message=table.text(key), code=table.text("code", SESSION_ERROR), **times)


def _fail(table: Table, key: str, _around: Around, times: Mapping[str, int]) -> Step:
    return Fail(message=table.text(key), code=table.text("code", RUN_FAILED), **times)


def _end_stream(table: Table, key: str, _around: Around, times: Mapping[str, int]) -> Step:
    return EndStream(ending=ENDINGS[table.one_of(key, list(ENDINGS))], **times)


def _repeat(table: Table, key: str, around: Around, times: Mapping[str, int]) -> Step:
    return Repeat(times=table.integer(key, least=1), steps=_inner(table, "steps", around), **times)


def _together(table: Table, key: str, around: Around, times: Mapping[str, int]) -> Step:
    steps = _inner(table, key, around)
    if len(steps) > _MOST_TOGETHER:
        raise table.wrong(key, f"there can be {_MOST_TOGETHER} of them at most")
    return Together(steps=steps, **times)


def _true(table: Table, key: str) -> None:
    if table.values[key] is not True:
        raise table.wrong(key, "it has to be true")


KINDS: dict[str, Kind] = {
    "say": Kind(_text, ("cut",)),
    "think": Kind(_text, ("cut",)),
    "intermediate": Kind(_text, ("cut",)),
    "tool": Kind(_tool, ("input", "output", "error", "takes")),
    "ask": Kind(_ask, ("input", "deadline", "unavailable")),
    "wait-for-input": Kind(_wait_for_input, ("deadline", "unavailable")),
    "wait": Kind(_pause),
    "sandbox": Kind(_sandbox),
    "resync": Kind(_resync),
    "session-error": Kind(_error, ("code",)),
    "fail": Kind(_fail, ("code",)),
    "end-stream": Kind(_end_stream),
    "repeat": Kind(_repeat, ("steps",)),
    "together": Kind(_together),
}
"""Every kind of step, by the key that names it."""
