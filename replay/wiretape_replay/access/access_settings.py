"""Settings of authentication and rate limits: keys, scopes, limits and workspaces, from a TOML file.

The specification does not name scopes, and does not show which of them an operation needs, which operations count
towards which limit, or at which paths sessions and runs are created.  The defaults are assumptions that a file can
replace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from wiretape.agent_sessions import CANCEL, LIMITS, OPERATIONS, RESUME, STREAM, Limit
from wiretape.input_validation import Source, choices_hint, validate
from wiretape.safe_text import closest_match, shorten
from wiretape.toml_files import require_table_lists
from wiretape_replay.http_server.http_messages import RequestPattern

DEFAULT_TENANT = "default"

_SESSIONS = "/".join(STREAM.path.split("/")[:3])
CREATE_SESSION = f"POST {_SESSIONS}"
CREATE_RUN = f"POST {_SESSIONS}/{{session_id}}/runs"
"""The requests that create sessions and runs.  An assumption."""

ASSUMED = "assumed"
"""The table of a settings file that only `wiretape serve` reads."""

ASSUMED_SCOPES = {
    STREAM.name: "events:read",
    CANCEL.name: "runs:write",
    RESUME.name: "runs:write",
    CREATE_RUN: "runs:write",
    CREATE_SESSION: "sessions:write",
}
"""The scope that requests need; all others need none.  An assumption."""

ASSUMED_COUNTS = {
    STREAM.name: "events",
    CANCEL.name: "runs",
    RESUME.name: "runs",
    CREATE_RUN: "runs",
    CREATE_SESSION: "sessions",
}
"""The limit that requests count towards; all others count towards none.  An assumption."""

PatternTable = tuple[tuple[RequestPattern, str | None], ...]
"""Request patterns and the scope or limit of the requests that match, None for none.  The first match decides."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The permissions of a bearer key."""

    tenant: str = DEFAULT_TENANT
    workspace: str | None = None
    """The workspace whose sessions the key may access; None: all."""
    scopes: frozenset[str] | None = None
    """None: all."""


ANY_KEY = ApiKey()


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """How requests are authenticated and limited.  By default any key is valid, and nothing is limited."""

    authentication: bool = True
    """Whether requests need a bearer key."""
    keys: Mapping[str, ApiKey] | None = None
    """The valid keys; None: every key is valid."""
    scopes: PatternTable = field(default_factory=lambda: _pattern_table(ASSUMED_SCOPES))
    counts: PatternTable = field(default_factory=lambda: _pattern_table(ASSUMED_COUNTS))
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """The limits of each tenant."""
    tenant_limits: Mapping[str, Mapping[str, Limit]] = field(default_factory=dict)
    """Limits of individual tenants, which replace those."""
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """The workspace of each session id, for sessions whose events do not name it."""


_Text = Annotated[str, Meta(min_length=1)]
_Count = Annotated[int, Meta(ge=1)]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file."""


class KeyTable(_Table, frozen=True):
    """A key, under `[[keys]]`."""

    key: _Text
    tenant: _Text = DEFAULT_TENANT
    workspace: _Text | None = None
    scopes: list[str] | None = None


class TenantLimitTable(_Table, frozen=True):
    """The limits of a tenant: how many requests per window."""

    sessions: _Count | None = None
    runs: _Count | None = None
    events: _Count | None = None
    window_seconds: _Count | None = None

    def limits(self, defaults: Mapping[str, Limit]) -> dict[str, Limit]:
        """These limits, completed by defaults."""
        return {
            name: Limit(getattr(self, name) or limit.requests, self.window_seconds or limit.window_seconds)
            for name, limit in defaults.items()
        }


class LimitTable(TenantLimitTable, frozen=True):
    """The limits of all tenants, under `[limits]`."""

    tenants: dict[str, TenantLimitTable] = {}


class AccessFile(_Table, frozen=True):
    """The settings file."""

    authentication: bool = True
    keys: list[KeyTable] | None = None
    scopes: dict[str, _Text | bool] = {}
    counts: dict[str, Literal["sessions", "runs", "events"] | bool] = {}
    limits: LimitTable | bool = LimitTable()
    workspaces: dict[str, _Text] = {}
    assumed: dict[str, Any] = {}
    """Only `wiretape serve` reads this table."""


def decode_access_policy(
    document: Mapping[str, Any], name: str, moved: Mapping[str, str] | None = None
) -> AccessPolicy:
    """Decode the document of a settings file; `name` is what errors call it.  Raises InputError.

    `moved` replaces the requests that create sessions and runs.
    """
    source = Source(name)
    require_table_lists(document, ["keys"], source)
    file = validate(document, AccessFile, source)
    moved = moved or {}
    scopes, counts = (
        {moved.get(request, request): value for request, value in table.items()}
        for table in (ASSUMED_SCOPES, ASSUMED_COUNTS)
    )
    scope_table = (*_configured_table(file.scopes, "scopes", source), *_pattern_table(scopes))
    if file.limits is True:
        raise source.error(("limits",), "expected a table or false, got true")
    limits = file.limits.limits(LIMITS) if file.limits else {}
    tenants = file.limits.tenants if file.limits else {}
    known_scopes = sorted({scope for _, scope in scope_table if scope is not None})
    return AccessPolicy(
        authentication=file.authentication,
        keys=_keys(file.keys, known_scopes, source) if file.keys is not None else None,
        scopes=scope_table,
        counts=(*_configured_table(file.counts, "counts", source), *_pattern_table(counts)),
        limits=limits,
        tenant_limits={tenant: table.limits(limits) for tenant, table in tenants.items()},
        workspaces=file.workspaces,
    )


def _keys(tables: list[KeyTable], known_scopes: list[str], source: Source) -> dict[str, ApiKey]:
    keys: dict[str, ApiKey] = {}
    for number, table in enumerate(tables):
        at = ("keys", number)
        if not table.key.isascii() or not table.key.isprintable() or " " in table.key:
            raise source.error((*at, "key"), "a key must consist of ASCII characters without spaces")
        if table.key in keys:
            raise source.error((*at, "key"), "this key is already listed above")
        for scope in table.scopes or ():
            if scope not in known_scopes:
                hint = choices_hint(scope, known_scopes)
                raise source.error((*at, "scopes"), f"unknown scope {shorten(scope, 60)}{hint}")
        scopes = None if table.scopes is None else frozenset(table.scopes)
        keys[table.key] = ApiKey(table.tenant, table.workspace, scopes)
    return keys


def _configured_table(values: Mapping[str, str | bool], name: str, source: Source) -> PatternTable:
    rows: list[tuple[RequestPattern, str | None]] = []
    for request, value in values.items():
        if value is True:
            raise source.error((name, request), "expected a string or false, got true")
        try:
            rows.append((RequestPattern.of(request), value or None))
        except ValueError as error:
            similar = closest_match(request, OPERATIONS)
            hint = f"; did you mean {similar}?" if similar else ""
            raise source.error((name, request), f"{error}{hint}") from None
    return tuple(rows)


def _pattern_table(values: Mapping[str, str]) -> PatternTable:
    return tuple((RequestPattern.of(request), value) for request, value in values.items())
