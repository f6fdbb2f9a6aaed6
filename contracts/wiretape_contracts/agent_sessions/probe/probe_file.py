"""`probe.toml`: how to reach a service, and the requests that the specification does not show."""

import json
import os
import re
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta, Struct, to_builtins

from wiretape.errors import InputError
from wiretape.input_validation import Source, validate
from wiretape.rules import parse_service_base
from wiretape.toml_files import read_toml

_Text = Annotated[str, Meta(min_length=1)]
_Pointer = Annotated[str, Meta(pattern="^/")]
_REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/[!-~]*)")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDERS = {
    "create-session": (),
    "create-run": ("{session_id}",),
    "read-session": ("{session_id}",),
    "read-run": ("{session_id}", "{run_id}"),
    "delete-session": ("{session_id}",),
    "hooks.resync": ("{session_id}", "{run_id}"),
    "hooks.deadline": ("{session_id}", "{run_id}"),
    "hooks.closing": ("{session_id}", "{run_id}"),
}
"""The requests, and what stands for ids in their paths."""


class _Table(Struct, forbid_unknown_fields=True, rename="kebab", frozen=True):
    """A table of the file."""


class Keys(_Table, frozen=True):
    """Names of environment variables with bearer keys."""

    main: _Text = "SERVICE_KEY"
    other_tenant: _Text | None = None
    """Of another tenant: it must not see the sessions of `main`."""
    limited: _Text | None = None
    """Without the scope to create sessions."""


class Operation(_Table, frozen=True):
    """A request: `POST /v1/sessions`."""

    request: _Text

    @property
    def method(self) -> str:
        """The method."""
        return self.request.partition(" ")[0]

    @property
    def target(self) -> str:
        """The path, in which `{session_id}` and `{run_id}` stand for ids."""
        return self.request.partition(" ")[2]


class Create(Operation, frozen=True):
    """A request that creates something, and where its response has the id."""

    body: dict[str, Any] = {}
    id: _Pointer = "/id"


class Runs(_Table, frozen=True):
    """Bodies of requests that create runs of different kinds."""

    plain: dict[str, Any] = {}
    """Ends by itself within seconds; better with reasoning, a tool and a message."""
    tool: dict[str, Any] | None = None
    """Waits for the result of an application tool."""
    brief_tool: dict[str, Any] | None = None
    """The same, with a deadline of a few seconds."""
    unavailable_tool: dict[str, Any] | None = None
    """The same, but the first result is refused with `runtime_resume_unavailable`."""
    long: dict[str, Any] | None = None
    """Is still active after 20 seconds."""
    failing: dict[str, Any] | None = None
    """Ends with `run.failed`."""
    many: dict[str, Any] | None = None
    """Has a thousand durable events."""
    resync: dict[str, Any] | None = None
    """Sends `stream.resync` to its readers."""
    no_sandbox: dict[str, Any] | None = None
    """Is refused with `SANDBOX_PROVISION_FAILED`."""


class ToolResult(_Table, frozen=True):
    """Bodies of resume requests, in which `{tool_call_id}` stands for the id of the call."""

    correct: dict[str, Any]
    wrong: dict[str, Any] | None = None
    """Does not match the output schema of the tool."""


class Hook(Operation, frozen=True):
    """A request that makes the service do something; `{session_id}` and `{run_id}` stand for ids."""

    body: dict[str, Any] = {}


class Hooks(_Table, frozen=True):
    """Requests for what no run makes the service do."""

    resync: Hook | None = None
    """Send `stream.resync` to the readers of a session, instead of a run of kind `resync`."""
    deadline: Hook | None = None
    """Let the deadline of a waiting run pass, instead of a run of kind `brief-tool`."""
    closing: Hook | None = None
    """End the streams of a session, as when the service restarts."""


class Limits(_Table, frozen=True):
    """The limits of the main key's tenant: requests per window."""

    sessions: Annotated[int, Meta(ge=1)] | None = None
    runs: Annotated[int, Meta(ge=1)] | None = None
    events: Annotated[int, Meta(ge=1)] | None = None


class ProbeFile(_Table, frozen=True):
    """The whole file."""

    base_url: _Text
    keys: Keys = Keys()
    create_session: Create | None = None
    create_run: Create | None = None
    read_session: Operation | None = None
    read_run: Operation | None = None
    delete_session: Operation | None = None
    runs: Runs = Runs()
    tool_result: ToolResult | None = None
    hooks: Hooks = Hooks()
    limits: Limits = Limits()
    idempotency_header: Annotated[str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")] | None = None
    ca_file: _Text | None = None
    """Certificates to trust instead of the system's, for example a self-signed one."""

    def key_variable(self, key: str) -> str | None:
        """Return the environment variable of a key, by its name in the file; None if the file does not have it."""
        name: str | None = getattr(self.keys, key.replace("-", "_"))
        return name

    @property
    def origin(self) -> str:
        """`http://host:port` of the service."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def base_path(self) -> str:
        """What precedes `/v1`."""
        return urlsplit(self.base_url).path.rstrip("/")


def read_probe_file(path: Path) -> ProbeFile:
    """Read a file.  Raises InputError."""
    return decode_probe_file(read_toml(path), str(path))


def decode_probe_file(document: Mapping[str, Any], name: str) -> ProbeFile:
    """Decode the document of a file; `name` is what error messages call it.  Raises InputError."""
    source = Source(name)
    file = validate(document, ProbeFile, source)
    if not _is_url(file.base_url):
        raise source.error(("base-url",), f"expected a URL such as https://service.test, got '{file.base_url}'")
    if file.base_path.endswith("/v1"):
        raise source.error(("base-url",), f"expected only the part before /v1, got '{file.base_url}'")
    for key in ("main", "other-tenant", "limited"):
        if not _VARIABLE.fullmatch(file.key_variable(key) or "unset"):
            # The value is not shown: it may be a key.
            raise source.error(("keys", key), "expected the name of an environment variable such as SERVICE_KEY")
    for key, placeholders in _PLACEHOLDERS.items():
        path = key.split(".")
        operation = attrgetter(key.replace("-", "_"))(file)
        if operation is None:
            continue
        if not _REQUEST.fullmatch(operation.request):
            raise source.error(
                (*path, "request"), f"expected a method and a path such as POST /v1/sessions, got '{operation.request}'"
            )
        unknown = [each for each in _PLACEHOLDER.findall(operation.request) if each not in placeholders]
        if unknown:
            known = " or ".join(placeholders) or "no placeholder"
            raise source.error((*path, "request"), f"expected {known}, got {unknown[0]} in '{operation.request}'")
    return file


def keys_of(file: ProbeFile, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the keys that the environment has, by name.  Raises InputError if the main key is missing or invalid."""
    names = {"main": file.keys.main, "other-tenant": file.keys.other_tenant, "limited": file.keys.limited}
    keys = {key: environment.get(name, "").strip() for key, name in names.items() if name is not None}
    if not keys["main"]:
        raise InputError(f"The environment variable {file.keys.main} is not set: set it to a key for the service.")
    if not keys["main"].isascii() or not keys["main"].isprintable() or " " in keys["main"]:
        raise InputError(
            f"The environment variable {file.keys.main} does not contain a valid key: it has spaces or is not ASCII."
        )
    return {key: value for key, value in keys.items() if value}


def initial_file(url: str) -> str:
    """Return the text of a new file for the service at `url`.  Raises InputError if that is not a URL."""
    if _is_url(url) and '"' not in url and "\\" not in url:
        return Path(__file__).with_name("initial_probe.toml").read_text("utf-8").replace("BASE_URL", url.rstrip("/"))
    raise InputError(f"Invalid URL '{url}': expected the address of the service, for example http://127.0.0.1:8090.")


def _is_url(text: str) -> bool:
    try:
        return parse_service_base(text).origin is not None
    except ValueError:
        return False


_TABLE = re.compile(r"(?:# )?\[([a-z-]+)\](.*)")
_ENTRY = re.compile(r"(?:# )?([a-z-]+) = (.*?) *(?:# (.*))?")
_COMMENT_COLUMN = 43


def file_values(file: ProbeFile) -> dict[str, Any]:
    """Return the values of a file by their keys, such as `create-session.id`."""
    values: dict[str, Any] = {}
    for name in file.__struct_fields__:
        value, key = getattr(file, name), name.replace("_", "-")
        names = value.__struct_fields__ if isinstance(value, Struct) else ()
        values |= {f"{key}.{each.replace('_', '-')}": getattr(value, each) for each in names} or {key: value}
    return {key: to_builtins(value) for key, value in values.items() if value is not None}


def probe_file_text(
    url: str, values: Mapping[str, Any], rejected: Mapping[str, Any], problems: Mapping[str, str]
) -> str:
    """Return the text of a file with values; what has none is a comment, with the problem if there is one.

    A comment has the value that was `rejected`, or an example.
    """
    known = {**rejected, **values}
    lines: list[str] = []
    table = ""
    for line in initial_file(url).splitlines():
        if found := _TABLE.fullmatch(line):
            table = f"{found[1]}."
            is_used = any(key.startswith(table) for key in values)
            header = f"{'' if is_used else '# '}[{found[1]}]"
            lines.append(f"{header.ljust(_COMMENT_COLUMN)}{found[2].lstrip()}".rstrip())
        elif (found := _ENTRY.fullmatch(line)) and (key := table + found[1]) != "base-url":
            value = _toml(known[key]) if key in known else found[2]
            entry = f"{'' if key in values else '# '}{found[1]} = {value}"
            comment = "; ".join(filter(None, (found[3], problems.get(key) and f"not found: {problems[key]}")))
            lines.append(f"{entry.ljust(_COMMENT_COLUMN - 1)} # {comment}" if comment else entry)
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Return a value as TOML, on one line."""
    if isinstance(value, Mapping):
        entries = (f"{name if _BARE.fullmatch(name) else _toml(name)} = {_toml(each)}" for name, each in value.items())
        text = ", ".join(entries)
        return f"{{ {text} }}" if text else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # DEL is the only character that JSON allows in a string and TOML does not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


_BARE = re.compile("[A-Za-z0-9_-]+")
