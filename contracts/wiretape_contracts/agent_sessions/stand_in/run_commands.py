"""The bodies of requests that create and resume runs.  All of this is assumed: the specification shows none of it.

Creating a run: `input` (anything), `sandbox` (false: it needs none), `tools` (application tools: `name`,
`input_schema`, `output_schema`).  Resuming a run: `tool_call_id` with `output` (the result) or `error` (why the
application failed), or `input` (anything) if the run waits for input.  Other keys are ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from wiretape.contract.service_terms import ErrorWriter
from wiretape_contracts.agent_sessions import INVALID_REQUEST, TOOL_INPUT_INVALID
from wiretape_contracts.agent_sessions.stand_in.tool_schemas import (
    ANY_OBJECT,
    ErrorDetail,
    ToolSchema,
    UnusableSchemaError,
)
from wiretape_replay.access.contract_errors import error_response
from wiretape_replay.http_server.http_messages import HttpResponse

_LONGEST_NAME = 200
_MOST_TOOLS = 100


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """The run that keeps a session busy."""

    session_id: str
    run_id: str
    status: str


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

    def respond(self, errors: ErrorWriter, request_id: str) -> HttpResponse:
        """Return the response."""
        active, fields, values = self.active, dict[str, Any](), dict[str, object]()
        if active is not None:
            fields, values = {"active_run_status": active.status}, {"session_id": active.session_id}
            values["run_id"] = active.run_id
        if self.reasons:
            fields["details"] = [asdict(reason) for reason in self.reasons]
        return error_response(errors, self.code, self.message, request_id, values=values, fields=fields)


def invalid_field(path: str, reason: str, code: str = INVALID_REQUEST) -> Refusal:
    """The refusal of a request because of one field; the path of the whole body is `$`."""
    field = "The body" if path == "$" else path
    return Refusal(code, f"{field} is invalid: {reason}.", reasons=[ErrorDetail(path, reason)])


def require(condition: bool, path: str, reason: str) -> None:
    """Raise Refusal unless a condition for the field at a path holds."""
    if not condition:
        raise invalid_field(path, reason)


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """An application tool, with its compiled schemas."""

    input: ToolSchema
    output: ToolSchema


@dataclass(frozen=True, slots=True)
class CreateBody:
    """The body of a request that creates a run."""

    input: Any
    needs_sandbox: bool
    tools: Mapping[str, RegisteredTool]


@dataclass(frozen=True, slots=True)
class ResumeBody:
    """The body of a request that resumes a run."""

    tool_call_id: str | None
    """None for input."""
    result: Mapping[str, Any]
    """Has `output`, `error` or `input`."""


def parse_create_body(body: Mapping[str, Any]) -> CreateBody:
    """Parse the body of a request that creates a run.  Raises Refusal."""
    needs_sandbox, tools = body.get("sandbox", True), body.get("tools", [])
    require(isinstance(needs_sandbox, bool), "sandbox", "expected true or false")
    is_list = isinstance(tools, list) and len(tools) <= _MOST_TOOLS
    require(is_list, "tools", f"expected a list of at most {_MOST_TOOLS} tools")
    registered: dict[str, RegisteredTool] = {}
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        require(isinstance(tool, Mapping), path, "expected an object")
        name = tool.get("name")
        is_name = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME
        require(is_name, f"{path}.name", f"expected a string of 1 to {_LONGEST_NAME} characters")
        require(name not in registered, f"{path}.name", "another tool in the list has this name")
        registered[name] = RegisteredTool(
            _schema(tool, "input_schema", path, TOOL_INPUT_INVALID), _schema(tool, "output_schema", path)
        )
    return CreateBody(body.get("input"), needs_sandbox, registered)


def _schema(tool: Mapping[str, Any], key: str, path: str, code: str = INVALID_REQUEST) -> ToolSchema:
    schema = tool.get(key, ANY_OBJECT)
    require(isinstance(schema, Mapping), f"{path}.{key}", "expected an object")
    try:
        return ToolSchema(schema)
    except UnusableSchemaError as error:
        raise invalid_field(f"{path}.{key}", str(error), code) from None


def parse_resume_body(body: Mapping[str, Any]) -> ResumeBody:
    """Parse the body of a request that resumes a run.  Raises Refusal."""
    if "tool_call_id" not in body:
        require("input" in body, "tool_call_id", "missing, and so is input")
        return ResumeBody(None, {"input": body["input"]})
    call_id, error = body["tool_call_id"], body.get("error", "-")
    require(isinstance(call_id, str), "tool_call_id", "expected a string")
    require(("output" in body) != ("error" in body), "output", "expected either output or error")
    require(isinstance(error, str) and error != "", "error", "expected a non-empty string")
    result = {name: body[name] for name in ("output", "error") if name in body}
    try:
        orjson.dumps({"content": result})
    except TypeError:  # an event cannot hold it
        raise invalid_field(next(iter(result)), "nested too deeply, or not JSON") from None
    return ResumeBody(call_id, result)
