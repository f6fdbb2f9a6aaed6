"""The bodies of requests that create and resume runs.  All of this is assumed: the specification shows none of it.

Creating a run: `input` (anything), `sandbox` (false: it needs none), `tools` (application tools: `name`,
`input_schema`, `output_schema`).  Resuming a run: `tool_call_id` with `output` (the result) or `error` (why the
application failed), or `input` (anything) if the run waits for input.  Other keys are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from wiretape.contract import INVALID_REQUEST, TOOL_INPUT_INVALID
from wiretape_replay.access.error_envelope import ActiveRun, ErrorDetail
from wiretape_replay.service.scenario.scenario_steps import ToolSchemas
from wiretape_replay.service.scenario.tool_schemas import ANY_OBJECT, ToolSchema, UnusableSchemaError


class CommandKind(StrEnum):
    """What a command does."""

    CREATE = "create"
    CANCEL = "cancel"
    RESUME = "resume"


class Refusal(Exception):  # noqa: N818 - a normal response, not an error of the program
    """A command is refused with one of the 16 codes; the fields are those of the error envelope."""

    def __init__(
        self, code: str, message: str, *, active: ActiveRun | None = None, reasons: Sequence[ErrorDetail] = ()
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.active = active
        self.reasons = reasons


_LONGEST_NAME = 200
_MOST_TOOLS = 100


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """An application tool, with its compiled schemas."""

    input: ToolSchema
    output: ToolSchema

    @classmethod
    def of(cls, tool: ToolSchemas) -> "RegisteredTool":
        """Compile the schemas of a tool.  Raises UnusableSchemaError."""
        return cls(ToolSchema(tool.input), ToolSchema(tool.output))


@dataclass(frozen=True, slots=True)
class CreateBody:
    """The body of a request that creates a run."""

    needs_sandbox: bool
    tools: Mapping[str, RegisteredTool]


@dataclass(frozen=True, slots=True)
class ResumeBody:
    """The body of a request that resumes a run."""

    tool_call_id: str | None
    """None for input."""
    result: Mapping[str, Any]
    """Has `output`, `error` or `input`."""


def parse_create_body(body: Any) -> CreateBody:
    """Parse the body of a request that creates a run.  Raises Refusal."""
    _refuse(INVALID_REQUEST, "The body", _create_reasons(body))
    tools: dict[str, RegisteredTool] = {}
    for index, entry in enumerate(body.get("tools", [])):
        path = f"tools[{index}]"
        input_ = _schema(entry, "input_schema", path, TOOL_INPUT_INVALID)
        tools[entry["name"]] = RegisteredTool(input_, _schema(entry, "output_schema", path, INVALID_REQUEST))
    return CreateBody(body.get("sandbox", True), tools)


def parse_resume_body(body: Any) -> ResumeBody:
    """Parse the body of a request that resumes a run.  Raises Refusal."""
    _refuse(INVALID_REQUEST, "The body", _resume_reasons(body))
    call_id = body.get("tool_call_id")
    names = ("input",) if call_id is None else ("output", "error")
    return ResumeBody(call_id, {name: body[name] for name in names if name in body})


def _schema(entry: Mapping[str, Any], key: str, path: str, code: str) -> ToolSchema:
    try:
        return ToolSchema(entry.get(key, ANY_OBJECT))
    except UnusableSchemaError as error:
        _refuse(code, f"The {key} of a tool", [ErrorDetail(f"{path}.{key}", str(error))])
        raise


def _refuse(code: str, what: str, reasons: Iterable[ErrorDetail]) -> None:
    """Refuse the request, if there are reasons."""
    if found := list(reasons):
        raise Refusal(code, f"{what} is invalid: {found[0].path}: {found[0].reason}.", reasons=found)


def _create_reasons(body: Any) -> Iterator[ErrorDetail]:
    if not isinstance(body, Mapping):
        yield ErrorDetail("$", "expected an object")
        return
    if not isinstance(body.get("sandbox", True), bool):
        yield ErrorDetail("sandbox", "expected true or false")
    tools = body.get("tools", [])
    if not isinstance(tools, list) or len(tools) > _MOST_TOOLS:
        yield ErrorDetail("tools", f"expected a list of at most {_MOST_TOOLS} tools")
        return
    names: set[str] = set()
    for index, tool in enumerate(tools):
        yield from _tool_reasons(tool, f"tools[{index}]", names)


def _tool_reasons(tool: Any, path: str, names: set[str]) -> Iterator[ErrorDetail]:
    if not isinstance(tool, Mapping):
        yield ErrorDetail(path, "expected an object")
        return
    name = tool.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        yield ErrorDetail(f"{path}.name", f"expected a string of 1 to {_LONGEST_NAME} characters")
    elif name in names:
        yield ErrorDetail(f"{path}.name", "another tool in the list has this name")
    else:
        names.add(name)
    for key in ("input_schema", "output_schema"):
        if not isinstance(tool.get(key, {}), Mapping):
            yield ErrorDetail(f"{path}.{key}", "expected an object")


def _resume_reasons(body: Any) -> Iterator[ErrorDetail]:
    if not isinstance(body, Mapping):
        yield ErrorDetail("$", "expected an object")
    elif "tool_call_id" not in body:
        if "input" not in body:
            yield ErrorDetail("tool_call_id", "missing, and so is input")
    elif not isinstance(body["tool_call_id"], str):
        yield ErrorDetail("tool_call_id", "expected a string")
    elif ("output" in body) == ("error" in body):
        yield ErrorDetail("output", "expected either output or error")
    elif "error" in body and (not isinstance(body["error"], str) or not body["error"]):
        yield ErrorDetail("error", "expected a non-empty string")
    elif not _fits_in_event(body):
        yield ErrorDetail("output" if "output" in body else "error", "nested too deeply, or not JSON")


def _fits_in_event(body: Mapping[str, Any]) -> bool:
    """Whether an event can hold the result: a result that cannot be written has to be refused."""
    try:
        orjson.dumps({"content": {name: body.get(name) for name in ("output", "error")}})
    except TypeError:
        return False
    return True
