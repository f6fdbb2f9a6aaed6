"""What the bodies of requests say: an assumption, for the specification shows none.

Of a new run: `input` (anything), `sandbox` (false: it needs none), `tools` (application tools: `name`, `input_schema`,
`output_schema`).  Of a resume: `tool_call_id` with `output` (the result) or `error` (why the application could not),
or `input` (anything) where the run waits for that.  Other keys are ignored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from wiretape.contract import INVALID_REQUEST, TOOL_INPUT_INVALID
from wiretape_replay.responses.error_envelope import ErrorDetail
from wiretape_replay.service.engine.model import Refusal
from wiretape_replay.service.engine.schemas import ANY_OBJECT, Shape, UnusableSchemaError
from wiretape_replay.service.scenario.steps import ToolSchemas

_LONGEST_NAME = 200
_MOST_TOOLS = 100


@dataclass(frozen=True, slots=True)
class Registered:
    """An application tool, its schemas ready to be used."""

    input: Shape
    output: Shape

    @classmethod
    def of(cls, tool: ToolSchemas) -> "Registered":
        """From its schemas.  Raises UnusableSchemaError."""
        return cls(Shape(tool.input), Shape(tool.output))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the body of a new run says."""

    has_sandbox: bool
    tools: Mapping[str, Registered]


@dataclass(frozen=True, slots=True)
class Given:
    """What the body of a resume says."""

    tool_call_id: str | None
    """None: it is input."""
    answer: Mapping[str, Any]
    """Has `output`, `error` or `input`."""


def wanted_in(body: Any) -> Wanted:
    """What a new run is to be like.  Raises Refusal."""
    _refuse(INVALID_REQUEST, "The body", _reasons_of_run(body))
    entries = body.get("tools", [])
    tools: dict[str, Registered] = {}
    for place, entry in enumerate(entries):
        path = f"tools[{place}]"
        inputs = _shape(entry, "input_schema", path, TOOL_INPUT_INVALID)
        tools[entry["name"]] = Registered(inputs, _shape(entry, "output_schema", path, INVALID_REQUEST))
    return Wanted(body.get("sandbox", True), tools)


def given_in(body: Any) -> Given:
    """What a run is resumed with.  Raises Refusal."""
    _refuse(INVALID_REQUEST, "The body", _reasons_of_resume(body))
    call_id = body.get("tool_call_id")
    names = ("input",) if call_id is None else ("output", "error")
    return Given(call_id, {name: body[name] for name in names if name in body})


def _shape(entry: Mapping[str, Any], key: str, path: str, code: str) -> Shape:
    try:
        return Shape(entry.get(key, ANY_OBJECT))
    except UnusableSchemaError as error:
        _refuse(code, f"The {key} of a tool", [ErrorDetail(f"{path}.{key}", str(error))])
        raise


def _refuse(code: str, what: str, reasons: "Iterator[ErrorDetail] | list[ErrorDetail]") -> None:
    """Refuse, if there are reasons."""
    if found := list(reasons):
        raise Refusal(code, f"{what} is not as it should be: {found[0].path}: {found[0].reason}.", reasons=found)


def _reasons_of_run(body: Any) -> Iterator[ErrorDetail]:
    if not isinstance(body, Mapping):
        yield ErrorDetail("$", "it has to be an object")
        return
    if not isinstance(body.get("sandbox", True), bool):
        yield ErrorDetail("sandbox", "it has to be true or false")
    tools = body.get("tools", [])
    if not isinstance(tools, list) or len(tools) > _MOST_TOOLS:
        yield ErrorDetail("tools", f"it has to be a list of at most {_MOST_TOOLS} tools")
        return
    names: set[str] = set()
    for place, tool in enumerate(tools):
        yield from _reasons_of_tool(tool, f"tools[{place}]", names)


def _reasons_of_tool(tool: Any, path: str, names: set[str]) -> Iterator[ErrorDetail]:
    if not isinstance(tool, Mapping):
        yield ErrorDetail(path, "it has to be an object")
        return
    name = tool.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        yield ErrorDetail(f"{path}.name", f"it has to be a text of 1 to {_LONGEST_NAME} characters")
    elif name in names:
        yield ErrorDetail(f"{path}.name", "another tool of the list has it")
    else:
        names.add(name)
    for key in ("input_schema", "output_schema"):
        if not isinstance(tool.get(key, {}), Mapping):
            yield ErrorDetail(f"{path}.{key}", "it has to be an object")


def _reasons_of_resume(body: Any) -> Iterator[ErrorDetail]:
    if not isinstance(body, Mapping):
        yield ErrorDetail("$", "it has to be an object")
    elif "tool_call_id" not in body:
        if "input" not in body:
            yield ErrorDetail("tool_call_id", "it is missing, and there is no input either")
    elif not isinstance(body["tool_call_id"], str):
        yield ErrorDetail("tool_call_id", "it has to be a text")
    elif ("output" in body) == ("error" in body):
        yield ErrorDetail("output", "either output or error has to be there, and not both")
    elif "error" in body and (not isinstance(body["error"], str) or not body["error"]):
        yield ErrorDetail("error", "it has to be a text, not an empty one")
    elif not _can_be_sent(body):
        yield ErrorDetail("output" if "output" in body else "error", "it is nested too deeply, or no JSON")


def _can_be_sent(body: Mapping[str, Any]) -> bool:
    """Whether an event can hold the result: what cannot be written must not be taken."""
    try:
        orjson.dumps({"content": {name: body.get(name) for name in ("output", "error")}})
    except TypeError:
        return False
    return True
