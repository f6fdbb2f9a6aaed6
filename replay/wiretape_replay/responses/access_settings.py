"""How the service that is played treats its clients: keys, scopes and limits, from a TOML file.

The specification shows neither the names of scopes, nor which of them an operation needs, nor which operations count
towards which limit, nor the paths at which sessions and runs are created.  The defaults for all of that are
assumptions, which a file can replace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wiretape.contract import CANCEL, LIMITS, OPERATIONS, RESUME, STREAM, Limit
from wiretape.safe_text import closest_match, shorten
from wiretape.toml import Table, TomlFile, hint
from wiretape_replay.http_server.request import RequestPattern

DEFAULT_TENANT = "default"
"""The tenant of every key for which no other is said."""

_SESSIONS = "/".join(STREAM.path.split("/")[:3])
CREATE_SESSION = f"POST {_SESSIONS}"
CREATE_RUN = f"POST {_SESSIONS}/{{session_id}}/runs"
"""Where sessions and runs are created.  An assumption."""

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

_WINDOW = "window-seconds"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a bearer key."""

    tenant: str = DEFAULT_TENANT
    workspace: str | None = None
    """The one whose sessions it may see; None for all."""
    scopes: frozenset[str] | None = None
    """None for all."""


ANY_KEY = ApiKey()


PatternTable = tuple[tuple[RequestPattern, str | None], ...]
"""Requests, and what they need or count towards, None for nothing; the first that hold a request decide."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """How a service treats its clients.  The default asks for a key, takes every one, and counts nothing."""

    authentication: bool = True
    """Whether a request has to carry a bearer key."""
    keys: Mapping[str, ApiKey] | None = None
    """The keys that are good; None: every key is."""
    scopes: PatternTable = field(default_factory=lambda: _pattern_table(ASSUMED_SCOPES))
    counts: PatternTable = field(default_factory=lambda: _pattern_table(ASSUMED_COUNTS))
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """The limits of every tenant, each counted for itself; those that are not here are not counted."""
    tenant_limits: Mapping[str, Mapping[str, Limit]] = field(default_factory=dict)
    """By tenant, the limits that it has in place of those."""
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """Of sessions, by their id, where the recording does not tell."""

    def with_limits(self) -> "AccessPolicy":
        """The same with the published limits, where none are set."""
        return self if self.limits else replace(self, limits=LIMITS)

    def without_keys(self) -> "AccessPolicy":
        """The same, asking for no key."""
        return replace(self, authentication=False)


def effective_policy(told: AccessPolicy | None, mode: str, *, limits: bool, no_auth: bool) -> AccessPolicy | None:
    """What the options say, `told` what a settings file does; None where verbatim mode treats all alike."""
    if mode == "verbatim" and told is None and not limits:
        return None
    service = told if told is not None else AccessPolicy(authentication=mode != "verbatim")
    service = service.with_limits() if limits else service
    return service.without_keys() if no_auth else service


def load_access_policy(path: Path) -> AccessPolicy:
    """What a file says of the service; the published limits unless it says otherwise.  Raises InputError."""
    return access_policy_from(TomlFile.load(path).table())


def access_policy_from(table: Table, elsewhere: Mapping[str, str] | None = None) -> AccessPolicy:
    """The same of a file that was read.

    `elsewhere` says which requests create sessions and runs, where those are not CREATE_SESSION and CREATE_RUN.
    """
    table.only(["authentication", "keys", "scopes", "counts", "limits", "workspaces", ASSUMED])
    elsewhere = elsewhere or {}
    scopes, counts = _moved(ASSUMED_SCOPES, elsewhere), _moved(ASSUMED_COUNTS, elsewhere)
    scopes = (*_scopes(table.table("scopes", 'stream = "events:read"')), *scopes)
    limits = table.table("limits", "runs = 60") if table.values.get("limits") is not False else None
    return AccessPolicy(
        authentication=table.flag("authentication", default=True),
        keys=_keys(table, sorted({scope for _, scope in scopes if scope is not None})) if "keys" in table else None,
        scopes=scopes,
        counts=(*_counts(table.table("counts", 'stream = "events"')), *counts),
        limits=_limits(limits, "tenants") if limits is not None else {},
        tenant_limits=_tenant_limits(limits) if limits is not None else {},
        workspaces=_workspaces(table.table("workspaces", 'ses_1 = "ws_1"')),
    )


def _keys(table: Table, scopes: Sequence[str]) -> dict[str, ApiKey]:
    keys: dict[str, ApiKey] = {}
    for entry in table.tables("keys"):
        entry.only(["key", "tenant", "workspace", "scopes"])
        text = entry.text("key")
        if not text.isascii() or not text.isprintable() or " " in text:
            raise entry.wrong("key", "it has to be of ASCII characters without spaces, as a header can carry it")
        if text in keys:
            raise entry.wrong("key", "the same key stands above already")
        keys[text] = ApiKey(
            tenant=entry.text("tenant", DEFAULT_TENANT),
            workspace=entry.text("workspace") if "workspace" in entry else None,
            scopes=_scopes_of_key(entry, scopes) if "scopes" in entry else None,
        )
    return keys


def _scopes_of_key(entry: Table, known: Sequence[str]) -> frozenset[str]:
    named = entry.texts("scopes", "scopes")
    for scope in named:
        if scope not in known:
            raise entry.wrong("scopes", f"there is no scope {shorten(scope, 60)}{hint(scope, known)}")
    return frozenset(named)


def _scopes(table: Table) -> PatternTable:
    return tuple((_requests(table, name), table.text(name) if _is_set(table, name) else None) for name in table)


def _counts(table: Table) -> PatternTable:
    return tuple(
        (_requests(table, name), table.one_of(name, [*LIMITS]) if _is_set(table, name) else None) for name in table
    )


def _is_set(table: Table, name: str) -> bool:
    """Whether requests need or count towards something: `false` says that they do not."""
    return table.values[name] is not False


def _requests(table: Table, name: str) -> RequestPattern:
    try:
        return RequestPattern.of(name)
    except ValueError as error:
        similar = closest_match(name, OPERATIONS)
        raise table.wrong(name, str(error) if similar is None else f"{error}; did you mean {similar}?") from None


def _limits(table: Table, *more: str, over: Mapping[str, Limit] = LIMITS) -> dict[str, Limit]:
    table.only([*LIMITS, _WINDOW, *more], "limit")
    limits = {}
    for name, limit in over.items():
        requests = table.integer(name, limit.requests, least=1)
        limits[name] = Limit(requests, table.integer(_WINDOW, limit.window_seconds, least=1))
    return limits


def _tenant_limits(table: Table) -> dict[str, dict[str, Limit]]:
    tenants, of_all = table.table("tenants"), _limits(table, "tenants")
    return {name: _limits(tenants.table(name, "runs = 60"), over=of_all) for name in tenants}


def _workspaces(table: Table) -> dict[str, str]:
    return {session_id: table.text(session_id) for session_id in table}


def _moved(names: Mapping[str, str], elsewhere: Mapping[str, str]) -> PatternTable:
    return _pattern_table({elsewhere.get(name, name): value for name, value in names.items()})


def _pattern_table(names: Mapping[str, str]) -> PatternTable:
    return tuple((RequestPattern.of(name), value) for name, value in names.items())
