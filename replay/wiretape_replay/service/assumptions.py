"""What the specification does not show, and a service cannot do without: assumptions, each with its default.

All of them are settings, or part of scenarios.  No check of wiretape leans on any of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from wiretape.contract import LIMITS, OPERATIONS, Operation
from wiretape.toml import Table, TomlFile
from wiretape.toml_files import read_toml
from wiretape_replay.responses.access_settings import (
    ASSUMED,
    CREATE_RUN,
    CREATE_SESSION,
    DEFAULT_TENANT,
    AccessPolicy,
    ApiKey,
    decode_access_policy,
)
from wiretape_replay.service.operations.routing import Route
from wiretape_replay.service.taken import why_no_header, why_no_operation

DEFAULT_KEY = "wiretape-key"
"""The key that is good where no file names others."""

SESSION_FACTS = ("id", "workspace_id", "status", "active_run_id", "created_at")
"""What there is to say of a session."""
RUN_FACTS = ("id", "session_id", "workspace_id", "status", "created_at", "ended_at", "waiting_for")
"""What there is to say of a run."""

_HEADER = "Idempotency-Key"
_WORKSPACE = "wks_1"
_READ_SESSION = CREATE_SESSION.replace("POST", "GET") + "/{session_id}"
_READ_RUN = CREATE_RUN.replace("POST", "GET") + "/{run_id}"


def _same(names: Sequence[str]) -> Mapping[str, str]:
    return {name: name for name in names}


def _setting(default: str | int | Mapping[str, str], about: str) -> Any:
    """A field that is a setting: what it is by default, and what it says."""
    if isinstance(default, str | int):
        return field(default=default, metadata={"about": about})
    return field(default_factory=lambda: default, metadata={"about": about})


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The settings of the table `[assumed]`; in the file, `-` stands for `_`."""

    create_session: str = _setting(CREATE_SESSION, "the request that creates a session")
    read_session: str = _setting(_READ_SESSION, "the request that reads a session")
    create_run: str = _setting(CREATE_RUN, "the request that creates a run")
    read_run: str = _setting(_READ_RUN, "the request that reads a run")
    idempotency_header: str = _setting(_HEADER, "the header that carries an idempotency key")
    workspace: str = _setting(_WORKSPACE, "the workspace of sessions, where neither key nor body names one")
    session_created: int = _setting(201, "the status of the answer when a session was created")
    run_created: int = _setting(201, "the status of the answer when a run was created")
    cancelled: int = _setting(200, "the status of the answer when a run was cancelled")
    resumed: int = _setting(200, "the status of the answer when a run was resumed")
    session_body: Mapping[str, str] = _setting(_same(SESSION_FACTS), "what the body of a session holds, by its keys")
    run_body: Mapping[str, str] = _setting(_same(RUN_FACTS), "what the body of a run holds, by its keys")

    @property
    def routes(self) -> Sequence[Route]:
        """The requests that are answered."""
        names = ("create_session", "read_session", "create_run", "read_run")
        own = [Route.of(name, getattr(self, name)) for name in names]
        return (*own, *(Route.of(operation.name, _request(operation)) for operation in OPERATIONS.values()))


@dataclass(frozen=True, slots=True)
class Setup:
    """How a service treats its clients, and what it assumes."""

    service: AccessPolicy
    assumed: Assumptions


def default_setup() -> Setup:
    """Without a file: one key, the published limits."""
    return Setup(AccessPolicy(keys={DEFAULT_KEY: ApiKey(DEFAULT_TENANT)}, limits=LIMITS), Assumptions())


def load_setup(path: Path) -> Setup:
    """What a file says; `[assumed]` is described here, the rest where `answers.settings` is.  Raises InputError."""
    return setup_in(read_toml(path), str(path))


def setup_in(document: Mapping[str, Any], name: str) -> Setup:
    """The same of a document that was read; `name` is what errors call it."""
    table = TomlFile(Path(name), document, {}).table()
    assumed = _assumed(table.table(ASSUMED, f'idempotency-header = "{_HEADER}"'))
    moved = {CREATE_SESSION: assumed.create_session, CREATE_RUN: assumed.create_run}
    return Setup(decode_access_policy(document, name, moved), assumed)


def settings() -> Sequence[tuple[str, str, str]]:
    """Every setting: its name in the file, its default as it would stand there, and what it says."""
    defaults = Assumptions()
    return [(_toml_name(one.name), _toml(getattr(defaults, one.name)), one.metadata["about"]) for one in _fields()]


def _assumed(table: Table) -> Assumptions:
    table.only([_toml_name(one.name) for one in _fields()])
    values: dict[str, Any] = {}
    for one in _fields():
        name = _toml_name(one.name)
        if name not in table:
            continue
        if one.name in _PATHS:
            values[one.name] = _request_in(table, name, _PATHS[one.name])
        elif one.name in _BODIES:
            values[one.name] = _body(table, name, _BODIES[one.name])
        elif one.type is int:
            values[one.name] = _status(table, name)
        else:
            values[one.name] = _text(table, name)
    assumed = Assumptions(**values)
    _check_apart(table, assumed)
    return assumed


def _request_in(table: Table, name: str, needed: frozenset[str]) -> str:
    text = table.text(name)
    try:
        route = Route.of(name, text)
    except ValueError as error:
        raise table.wrong(name, str(error)) from None
    if route.names != needed:
        held = " and ".join(f"{{{part}}}" for part in sorted(needed, reverse=True)) or "no {…}"
        raise table.wrong(name, f"its path has to hold {held}")
    if (why := why_no_operation(route)) is not None:
        raise table.wrong(name, why)
    return text


def _body(table: Table, name: str, facts: Sequence[str]) -> Mapping[str, str]:
    keys = table.table(name, f'{facts[0]} = "{facts[0]}"')
    body = {key: keys.one_of(key, facts) for key in keys}
    if facts[0] not in body.values():
        raise table.wrong(name, f'clients need the {facts[0]}, as in {{ {facts[0]} = "{facts[0]}" }}')
    return body


def _status(table: Table, name: str) -> int:
    status = table.integer(name, least=200)
    if status > 299 or status in {204, 205}:
        raise table.wrong(name, "it has to be a status from 200 to 299 whose answer has a body")
    return status


def _text(table: Table, name: str) -> str:
    text = table.text(name)
    if name == "idempotency-header" and (why := why_no_header(text)) is not None:
        raise table.wrong(name, why)
    return text


def _check_apart(table: Table, assumed: Assumptions) -> None:
    """No request may be two."""
    seen: dict[tuple[object, ...], str] = {}
    for route in assumed.routes:
        other = seen.setdefault(route.shape, route.name)
        if other != route.name:
            one = next(name for name in (route.name, other) if name in _PATHS)
            raise table.wrong(_toml_name(one), "another request has the same method and path")


def _toml_name(name: str) -> str:
    return name.replace("_", "-")


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f'{key} = "{fact}"' for key, fact in value.items()) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _request(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def _fields() -> Sequence[Any]:
    return fields(Assumptions)


_PATHS = {
    "create_session": frozenset[str](),
    "read_session": frozenset({"session_id"}),
    "create_run": frozenset({"session_id"}),
    "read_run": frozenset({"session_id", "run_id"}),
}
_BODIES = {"session_body": SESSION_FACTS, "run_body": RUN_FACTS}
