"""Configuration of a project: `wiretape.toml`, or the table `[tool.wiretape]` of `pyproject.toml`."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from wiretape.checker import CATALOGUE, Settings, UnknownCodeError, codes_of, selected, weight
from wiretape.errors import InputError
from wiretape.input_validation import KeyPath, Source, validate
from wiretape.observations import is_header_name
from wiretape.rules import Rule, RuleSet, Severity, parse_service_base
from wiretape.safe_text import printable, shorten
from wiretape.toml_files import read_toml

OWN_FILE = "wiretape.toml"
PROJECT_FILE = "pyproject.toml"
INCONCLUSIVE = "inconclusive"
NEVER = "never"
FAIL_ON = (*(severity.value for severity in Severity), INCONCLUSIVE, NEVER)
"""What may fail: findings at least this severe; all findings and inconclusive rules; or nothing."""
OFF = "off"

_Text = Annotated[str, Meta(min_length=1)]
_DEFAULT = Settings()


@dataclass(frozen=True, slots=True)
class Config:
    """What a project sets. None and empty values are not set."""

    file: Path | None = None
    """The file that was read."""
    settings: Settings = field(default_factory=Settings)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    baseline: Path | None = None
    docs_url: str | None = None
    contracts: tuple[str, ...] = ()
    """The names of contracts, or the paths of their files."""
    severity: Mapping[str, str] = field(default_factory=dict)
    """Severities, or `off`, by prefixes of codes."""

    def rule_codes(self, select: Collection[str] = (), ignore: Collection[str] = ()) -> frozenset[str]:
        """Return the codes of the rules to check. `select` and `ignore` of a command line override the file.

        Raises InputError for an unknown code, and if no rule is left.
        """
        catalogue = self.settings.catalogue
        # The codes of the file may be those of other contracts.
        own = [[prefix for prefix in each if _has_code(prefix, catalogue)] for each in (self.select, self.ignore)]
        try:
            codes = selected(select or own[0], ignore or own[1], catalogue) - self.settings.off
        except UnknownCodeError as error:
            raise InputError(str(error)) from None
        if not codes:
            where = f" ({self.file})" if self.file is not None else ""
            raise InputError(f"No rules left to check: every selected rule is ignored or turned off{where}.")
        return codes

    def effective_settings(self) -> Settings:
        """Return settings in which the rules that are not selected are off.  Raises InputError like `rule_codes`."""
        return replace(self.settings, off=frozenset(self.settings.catalogue) - self.rule_codes())

    def with_contracts(self, contracts: Sequence[RuleSet]) -> "Config":
        """Return a configuration for the rules of contracts; the built-in ones if there are none."""
        return replace(self, settings=_with_severities(self.settings.with_contracts(contracts), self.severity))


def threshold_of(fail_on: str) -> Severity | None:
    """Return the lowest severity of findings that fail for a value of FAIL_ON; None if none fails."""
    if fail_on == NEVER:
        return None
    return Severity.NOTE if fail_on == INCONCLUSIVE else Severity(fail_on)


def find_config(start: Path, contracts: Sequence[RuleSet] = ()) -> Config:
    """Read the nearest configuration in `start` or a parent folder; empty if there is none.

    Its codes may also be those of the `contracts` that a command line names.  Raises InputError.
    """
    for folder in (start, *start.parents):
        if not os.access(folder, os.X_OK):
            continue
        for path in (folder / OWN_FILE, folder / PROJECT_FILE):
            if path.name == OWN_FILE and (path.exists() or path.is_symlink()) and not path.is_file():
                raise InputError(f"{path} is not a file, so no configuration can be read from it.")
            if path.is_file() and (config := _read(path, contracts)) is not None:
                return config
    return Config()


def load_config(path: Path, contracts: Sequence[RuleSet] = ()) -> Config:
    """Read the configuration in `path`; see `find_config`. Raises InputError."""
    config = _read(path, contracts)
    if config is None:
        raise InputError(f"{path} has no table [tool.wiretape].")
    return config


class ConfigTable(Struct, forbid_unknown_fields=True, rename="kebab"):
    """The keys of a configuration as a file has them."""

    select: list[str] = []
    ignore: list[str] = []
    fail_on: Literal["error", "warning", "note", "inconclusive", "never"] | None = None
    baseline: _Text | None = None
    docs_url: _Text | None = None
    contract: _Text | Annotated[list[_Text], Meta(max_length=10)] = []
    base: str | None = None
    idempotency_header: str = _DEFAULT.idempotency_header
    keep_alive_tolerance: Annotated[float, Meta(ge=0, le=1_000_000_000)] = _DEFAULT.keep_alive_tolerance_s
    severity: dict[str, Literal["error", "warning", "note", "off"]] = {}


def _read(path: Path, contracts: Sequence[RuleSet]) -> Config | None:
    """Read a file; None if it is a pyproject.toml without a table for wiretape."""
    document: object = read_toml(path)
    source = Source(str(path))
    keys = ("tool", "wiretape") if path.name == PROJECT_FILE else ()
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    if document is None:
        return None
    table = validate(document, ConfigTable, source, keys)
    named = [table.contract] if isinstance(table.contract, str) else table.contract
    # Relative to the file that names them, wherever the command runs.
    names = tuple(str(path.parent / name) if _is_file_name(name) else name for name in named)
    known = _KnownCodes(contracts, names)
    for name, prefixes in (("select", table.select), ("ignore", table.ignore), ("severity", table.severity)):
        for index, prefix in enumerate(prefixes):
            known.check(prefix, source, (*keys, name, prefix if name == "severity" else index))
    if not is_header_name(table.idempotency_header):
        got = shorten(repr(table.idempotency_header), 60)
        raise source.error((*keys, "idempotency-header"), f"expected a header name such as Idempotency-Key, got {got}")
    if table.base is not None:
        try:
            parse_service_base(table.base)
        except ValueError as error:
            raise source.error((*keys, "base"), str(error)) from None
    settings = Settings(
        idempotency_header=table.idempotency_header,
        keep_alive_tolerance_s=table.keep_alive_tolerance,
        base=parse_service_base(table.base) if table.base is not None else None,
    )
    return Config(
        file=path,
        settings=_with_severities(settings, table.severity),
        select=tuple(table.select),
        ignore=tuple(table.ignore),
        fail_on=table.fail_on,
        baseline=path.parent / table.baseline if table.baseline is not None else None,
        docs_url=table.docs_url,
        contracts=names,
        severity=table.severity,
    )


def override_base(settings: Settings, base: str | None) -> Settings:
    """Return the settings with the base that the option `--base` gives, if it is given.  Raises InputError."""
    if base is None:
        return settings
    try:
        return replace(settings, base=parse_service_base(base))
    except ValueError as error:
        raise InputError(f"--base: {error}.") from None


def _with_severities(settings: Settings, severity: Mapping[str, str]) -> Settings:
    """Return settings with the severities of the rules that they have."""
    levels: dict[str, str] = {}
    # The most specific prefix wins, so it comes last.
    for prefix in sorted(severity, key=weight):
        if _has_code(prefix, settings.catalogue):
            levels |= dict.fromkeys(codes_of(prefix, settings.catalogue), severity[prefix])
    return replace(
        settings,
        severities={code: Severity(level) for code, level in levels.items() if level != OFF},
        off=frozenset(code for code, level in levels.items() if level == OFF),
    )


def _has_code(prefix: str, catalogue: Mapping[str, Rule]) -> bool:
    try:
        return bool(codes_of(prefix, catalogue))
    except UnknownCodeError:
        return False


def _is_file_name(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


class _KnownCodes:
    """The codes that a configuration may name: built-in ones, and those of contracts, which are loaded if needed."""

    def __init__(self, contracts: Sequence[RuleSet], names: Sequence[str]) -> None:
        self._catalogues = [CATALOGUE, *(each.catalogue for each in contracts)]
        self._names = names

    def check(self, prefix: str, source: Source, path: KeyPath) -> None:
        """Raise InputError if no rule has a code with the prefix."""
        if not self._has(prefix) and self._names:
            # Contracts take long to import, and few configurations name their codes.
            from wiretape.contract import CodeUse, load_contract  # noqa: PLC0415

            self._catalogues += [load_contract(name, code=CodeUse.SKIP).catalogue for name in self._names]
            self._names = ()
        if not self._has(prefix):
            try:
                codes_of(prefix)
            except UnknownCodeError as error:
                # The key path begins the sentence.
                raise source.error(path, printable(str(error).replace("Unknown", "unknown", 1))) from None

    def _has(self, prefix: str) -> bool:
        return any(_has_code(prefix, catalogue) for catalogue in self._catalogues)
