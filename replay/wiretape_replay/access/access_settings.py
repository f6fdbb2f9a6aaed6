"""Settings of authentication and rate limits: keys, scopes, limits and workspaces, from a TOML file.

Contracts name the limits and scopes of requests; a file can replace them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from wiretape.contract.service_terms import Limit
from wiretape.input_validation import Source, choices_hint, validate
from wiretape.safe_text import closest_match, shorten
from wiretape.toml_files import require_table_lists
from wiretape_replay.http_server.http_messages import RequestPattern
from wiretape_replay.replayed_contracts import ReplayedContracts

DEFAULT_TENANT = "default"

ASSUMED = "assumed"
"""The table of a settings file that only `wiretape serve` reads."""
_TENANTS, _WINDOW = "tenants", "window-seconds"

PatternTable = tuple[tuple[RequestPattern, str | None], ...]
"""Request patterns and the scope or limit of the requests that match, None for none.  The first match decides."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The permissions of a bearer key."""

    tenant: str = DEFAULT_TENANT
    workspace: str | None = None
    """The workspace whose channels the key may access; None: all."""
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
    scopes: PatternTable | None = None
    """None: those of the contracts; so are `counts`."""
    counts: PatternTable | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """The limits of each tenant."""
    tenant_limits: Mapping[str, Mapping[str, Limit]] = field(default_factory=dict)
    """Limits of individual tenants, which replace those."""
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """The workspace of each channel, for channels whose events do not name it."""

    def completed(self, contracts: ReplayedContracts) -> "AccessPolicy":
        """Return a policy with the scopes and counts of the contracts if it has none of its own."""
        scopes = contract_table(contracts.scopes, contracts) if self.scopes is None else self.scopes
        counts = contract_table(contracts.counts, contracts) if self.counts is None else self.counts
        return replace(self, scopes=scopes, counts=counts)


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


class AccessFile(_Table, frozen=True):
    """The settings file."""

    authentication: bool = True
    keys: list[KeyTable] | None = None
    scopes: dict[str, _Text | bool] = {}
    counts: dict[str, _Text | bool] = {}
    limits: dict[str, _Count | dict[str, dict[str, _Count]]] | bool = {}
    workspaces: dict[str, _Text] = {}
    assumed: dict[str, Any] = {}
    """Only `wiretape serve` reads this table."""


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """A settings file, before it is known which contracts it is for."""

    file: AccessFile
    source: Source

    @classmethod
    def decode(cls, document: Mapping[str, Any], name: str) -> "AccessSettings":
        """Decode the document of a settings file; `name` is what errors call it.  Raises InputError."""
        source = Source(name)
        require_table_lists(document, ["keys"], source)
        return cls(validate(document, AccessFile, source), source)

    def policy(self, contracts: ReplayedContracts, moved: Mapping[str, str] | None = None) -> AccessPolicy:
        """Return how requests to the service of contracts are authenticated and limited.  Raises InputError.

        `moved` replaces requests that the contracts name.
        """
        file, source = self.file, self.source
        scopes, counts = (
            {(moved or {}).get(request, request): value for request, value in table.items()}
            for table in (contracts.scopes, contracts.counts)
        )
        scope_table = (
            *_configured_table(file.scopes, "scopes", contracts, source),
            *contract_table(scopes, contracts),
        )
        for request, name in file.counts.items():
            if isinstance(name, str) and name not in contracts.limits:
                raise source.error(("counts", request), _unknown_limit(name, contracts))
        if file.limits is True:
            raise source.error(("limits",), "expected a table or false, got true")
        limits, tenant_limits = self._limits(file.limits or {}, contracts) if file.limits is not False else ({}, {})
        known_scopes = sorted({scope for _, scope in scope_table if scope is not None})
        return AccessPolicy(
            authentication=file.authentication,
            keys=_keys(file.keys, known_scopes, source) if file.keys is not None else None,
            scopes=scope_table,
            counts=(
                *_configured_table(file.counts, "counts", contracts, source),
                *contract_table(counts, contracts),
            ),
            limits=limits,
            tenant_limits=tenant_limits,
            workspaces=file.workspaces,
        )

    def _limits(
        self, table: Mapping[str, int | Mapping[str, Mapping[str, int]]], contracts: ReplayedContracts
    ) -> tuple[dict[str, Limit], dict[str, dict[str, Limit]]]:
        """Return the limits of all tenants, and those of single ones."""
        tenants = table.get(_TENANTS, {})
        if isinstance(tenants, int):
            raise self.source.error(("limits", _TENANTS), f"expected a table, got {tenants}")
        own: dict[str, int] = {}
        for name, value in table.items():
            if name != _TENANTS and not isinstance(value, int):
                raise self.source.error(("limits", name), "expected a number, got a table")
            own |= {name: value} if isinstance(value, int) else {}
        limits = self._limit_table(own, contracts.limits, contracts, ())
        return limits, {
            tenant: self._limit_table(each, limits, contracts, (_TENANTS, tenant)) for tenant, each in tenants.items()
        }

    def _limit_table(
        self,
        table: Mapping[str, int],
        defaults: Mapping[str, Limit],
        contracts: ReplayedContracts,
        path: tuple[str, ...],
    ) -> dict[str, Limit]:
        """Return the limits of a table, completed by defaults."""
        for name in table:
            if name not in (*contracts.limits, _WINDOW):
                raise self.source.error(("limits", *path, name), _unknown_limit(name, contracts))
        return {
            name: Limit(table.get(name, limit.requests), table.get(_WINDOW, limit.window_seconds))
            for name, limit in defaults.items()
        }


def _unknown_limit(name: str, contracts: ReplayedContracts) -> str:
    hint = choices_hint(name, contracts.limits) if contracts.limits else f": {contracts.names} has no limits"
    return f"unknown limit {shorten(name, 60)}{hint}"


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


def _configured_table(
    values: Mapping[str, str | bool], name: str, contracts: ReplayedContracts, source: Source
) -> PatternTable:
    rows: list[tuple[RequestPattern, str | None]] = []
    for request, value in values.items():
        if value is True:
            raise source.error((name, request), "expected a string or false, got true")
        try:
            rows.append((RequestPattern.of(request, contracts.operations), value or None))
        except ValueError as error:
            similar = closest_match(request, contracts.operations)
            hint = f"; did you mean {similar}?" if similar else ""
            raise source.error((name, request), f"{error}{hint}") from None
    return tuple(rows)


def contract_table(values: Mapping[str, str], contracts: ReplayedContracts) -> PatternTable:
    """Return the patterns of requests that contracts name."""
    return tuple((RequestPattern.of(request, contracts.operations), value) for request, value in values.items())
