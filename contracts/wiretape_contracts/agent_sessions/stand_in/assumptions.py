"""Assumptions of the stand-in: what the specification does not show, but a service needs.

Most are settings of the table `[assumed]` or part of scenarios.  No check of wiretape depends on any of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta, field

from wiretape.contract import load_contract
from wiretape.control_protocol import CONTROL_ROOT, TOKEN_HEADER
from wiretape.http_headers import LAST_EVENT_ID, RETRY_AFTER
from wiretape.input_validation import Source, validate
from wiretape.observations import is_header_name
from wiretape.toml_files import read_toml
from wiretape_contracts.agent_sessions import OPERATIONS, SESSIONS
from wiretape_contracts.agent_sessions.stand_in.service_routes import Route
from wiretape_replay.access.access_settings import (
    ASSUMED,
    DEFAULT_TENANT,
    AccessPolicy,
    AccessSettings,
    ApiKey,
)
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.server_options import toml_document

CREATE_SESSION = f"POST {SESSIONS}"
CREATE_RUN = f"POST {SESSIONS}/{{session_id}}/runs"
"""The requests that create sessions and runs.  An assumption, which the contract makes, too."""
DEFAULT_KEY = "wiretape-key"
"""The valid key if no file defines others."""
_RESERVED_HEADERS = frozenset(
    name.lower()
    for name in (
        *("Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Allow", "Authorization"),
        *("Cache-Control", "Connection", "Cookie", "Date", "Expect", "Forwarded", "From", "Host", "Keep-Alive"),
        *("Last-Modified", "Max-Forwards", "Origin", "Pragma", "Proxy-Authorization", "Proxy-Connection", "Range"),
        *("Referer", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via"),
        *(LAST_EVENT_ID, RETRY_AFTER, TOKEN_HEADER),
    )
)
"""Headers that have their own meaning, so they cannot carry an idempotency key."""
_RESERVED_PREFIXES = ("access-control-", "content-", "if-", "sec-", "x-forwarded-")

SessionFact = Literal["id", "workspace_id", "status", "active_run_id", "created_at"]
"""What a session body can contain."""
RunFact = Literal["id", "session_id", "workspace_id", "status", "created_at", "ended_at", "waiting_for"]
"""What a run body can contain."""

_Text = Annotated[str, Meta(min_length=1)]
_Status = Annotated[int, Meta(ge=200, le=299)]


class Assumptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The settings of the table `[assumed]`."""

    create_session: Annotated[_Text, Meta(description="request that creates a session")] = CREATE_SESSION
    read_session: Annotated[_Text, Meta(description="request that reads a session")] = (
        CREATE_SESSION.replace("POST", "GET") + "/{session_id}"
    )
    create_run: Annotated[_Text, Meta(description="request that creates a run")] = CREATE_RUN
    read_run: Annotated[_Text, Meta(description="request that reads a run")] = (
        CREATE_RUN.replace("POST", "GET") + "/{run_id}"
    )
    idempotency_header: Annotated[_Text, Meta(description="header of idempotency keys")] = "Idempotency-Key"
    workspace: Annotated[_Text, Meta(description="workspace of sessions if neither key nor body names one")] = "wks_1"
    session_created: Annotated[_Status, Meta(description="status of the response when a session is created")] = 201
    run_created: Annotated[_Status, Meta(description="status of the response when a run is created")] = 201
    cancelled: Annotated[_Status, Meta(description="status of the response when a run is cancelled")] = 200
    resumed: Annotated[_Status, Meta(description="status of the response when a run is resumed")] = 200
    session_body: Annotated[dict[str, SessionFact], Meta(description="keys of a session body")] = field(
        default_factory=lambda: {fact: fact for fact in get_args(SessionFact)}
    )
    run_body: Annotated[dict[str, RunFact], Meta(description="keys of a run body")] = field(
        default_factory=lambda: {fact: fact for fact in get_args(RunFact)}
    )

    @property
    def routes(self) -> Sequence[Route]:
        """The requests that the service responds to."""
        assumed = [Route.parse(name, getattr(self, name)) for name in _ROUTE_PARAMETERS]
        return (*assumed, *_SPECIFIED)

    def problems(self) -> Iterator[tuple[str, str]]:
        """What cannot be right: the key, and the problem."""
        yield from self._route_problems()
        if not is_header_name(self.idempotency_header):
            yield "idempotency-header", "expected the name of a header"
        lower = self.idempotency_header.lower()
        if lower in _RESERVED_HEADERS or lower.startswith(_RESERVED_PREFIXES):
            yield "idempotency-header", "this header has another meaning; use for example Idempotency-Key"
        for name in ("session_created", "run_created", "cancelled", "resumed"):
            if getattr(self, name) in {204, 205}:
                yield _key(name), "expected a status from 200 to 299 that has a body"
        for name in ("session_body", "run_body"):
            if "id" not in getattr(self, name).values():
                yield _key(name), 'clients need the id, for example { id = "id" }'

    def _route_problems(self) -> Iterator[tuple[str, str]]:
        seen = {route.shape for route in _SPECIFIED}
        for name, parameters in _ROUTE_PARAMETERS.items():
            try:
                route = Route.parse(name, getattr(self, name))
            except ValueError as error:
                yield _key(name), str(error)
                return
            if sorted(route.parameters) != sorted(parameters):
                expected = " and ".join(f"{{{each}}}" for each in parameters) or "no parameters in braces"
                yield _key(name), f"expected a path with {expected}"
            if f"{route.path}/".startswith(CONTROL_ROOT):
                yield _key(name), f"paths under {CONTROL_ROOT} belong to the control API"
            if route.shape in seen:
                yield _key(name), "another request has the same method and path"
            seen.add(route.shape)


_SPECIFIED = [Route(name, each.method, each.route) for name, each in OPERATIONS.items()]
_ROUTE_PARAMETERS: Mapping[str, Sequence[str]] = {
    "create_session": (),
    "read_session": ("session_id",),
    "create_run": ("session_id",),
    "read_run": ("session_id", "run_id"),
}
"""The settings that are requests, and the parameters of their paths."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of a service: access control and assumptions."""

    access: AccessPolicy
    assumed: Assumptions


def read_settings(service: object) -> ServiceSettings:
    """Return the settings that the option `service` gives.  Raises InputError."""
    if service is None:
        return default_settings()
    return service if isinstance(service, ServiceSettings) else decode_settings(*toml_document("service", service))


def default_settings() -> ServiceSettings:
    """The settings without a file: one key, and the published limits."""
    keys = {DEFAULT_KEY: ApiKey(DEFAULT_TENANT)}
    return ServiceSettings(AccessPolicy(keys=keys, limits=_contracts().limits), Assumptions())


def decode_settings(document: Mapping[str, Any], name: str) -> ServiceSettings:
    """Decode the document of a settings file; `name` is what error messages call it.  Raises InputError."""
    source = Source(name)
    assumed = validate(document.get(ASSUMED, {}), Assumptions, source, (ASSUMED,))
    for key, problem in assumed.problems():
        raise source.error((ASSUMED, key), problem)
    moved = {CREATE_SESSION: assumed.create_session, CREATE_RUN: assumed.create_run}
    return ServiceSettings(AccessSettings.decode(document, name).policy(_contracts(), moved), assumed)


@cache
def _contracts() -> ReplayedContracts:
    return ReplayedContracts([load_contract("agent-sessions")])


def _key(name: str) -> str:
    return name.replace("_", "-")


# The list of all assumptions, for the help and the documentation.


def list_assumptions() -> Mapping[str, Sequence[tuple[str, str]]]:
    """The lists of `wiretape serve --assumptions`, by title."""
    others = [(each["subject"], _describe(**each)) for each in fixed_assumptions()]
    return {
        f"Assumptions with settings, in [{ASSUMED}] of --service FILE": [
            (f"{name} = {default}", f"Assumed: {about}.") for name, default, about in assumed_settings()
        ],
        "Other assumptions": [(subject.replace("`", ""), text.replace("`", "")) for subject, text in others],
    }


def _describe(subject: str, assumed: str, setting: str = "") -> str:  # noqa: ARG001 - the keys of the file
    return f"Assumed: {assumed}. {f'Set in {setting}' if setting else 'Not configurable'}."


def assumed_settings() -> Sequence[tuple[str, str, str]]:
    """Every setting of `[assumed]`: its key, its default as TOML, and its description."""
    defaults = Assumptions()
    hints = get_type_hints(Assumptions, include_extras=True)
    return [
        (_key(name), _as_toml(getattr(defaults, name)), hints[name].__metadata__[-1].description)
        for name in Assumptions.__struct_fields__
    ]


def _as_toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f'{key} = "{fact}"' for key, fact in value.items()) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)


def fixed_assumptions() -> Sequence[Mapping[str, str]]:
    """The assumptions without a setting in `[assumed]`: `subject`, `assumed`, and `setting` where it can be changed."""
    rows: Sequence[Mapping[str, str]] = read_toml(Path(__file__).with_name("fixed_assumptions.toml"))["assumption"]
    return rows
