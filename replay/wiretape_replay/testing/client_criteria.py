"""The options of a test: the criteria by which its client fails, and those of its replay or stand-in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from wiretape.checker import UnknownCodeError, codes_of
from wiretape.config import FAIL_ON, Config, threshold_of
from wiretape.errors import InputError
from wiretape.input_validation import choices_hint
from wiretape.rules import Finding, Severity
from wiretape.safe_text import printable
from wiretape.toml_files import is_toml_text
from wiretape_replay.client_verdict.client_report import client_rules
from wiretape_replay.server_options import ReplayOptions, check_choice, string_list
from wiretape_replay.stand_in import ServeOptions

CRITERIA = ("fail_on", "allow", "allow_misses", "faults_may_miss", "upstream", "record")
"""The options of a test that `wiretape replay` and `wiretape serve` do not have."""
_Options = TypeVar("_Options", ReplayOptions, ServeOptions)


@dataclass(frozen=True, slots=True)
class ClientCriteria:
    """When the client fails a test."""

    config: Config
    """Configuration of the rules."""
    fail_on: str
    """The test fails if a finding is at least this severe: `error` (the default), `warning`, `note` or `never`.

    With `inconclusive`, it fails for every finding, and for rules that could not be decided.
    """
    rules: tuple[str, ...]
    """The codes of the client rules that must not be broken."""
    allow_misses: bool = False
    """Whether requests without a match are allowed."""
    faults_may_miss: bool = False
    """Whether faults that never match anything are allowed."""

    def forbids(self, finding: Finding) -> bool:
        """Whether the test fails because of a finding."""
        return finding.code in self.rules and finding.severity.reaches(threshold_of(self.fail_on))

    @classmethod
    def of(cls, options: Mapping[str, Any], config: Config) -> "ClientCriteria":
        """The criteria among the options of a test.  Raises InputError."""
        fail_on = options.get("fail_on") or config.fail_on or Severity.ERROR.value
        check_choice("fail_on", fail_on, FAIL_ON)
        return cls(
            config,
            str(fail_on),
            _rules(options.get("allow", ()), config),
            allow_misses=bool(options.get("allow_misses")),
            faults_may_miss=bool(options.get("faults_may_miss")),
        )


def select_options(
    type_: type[_Options], options: Mapping[str, Any], find: Callable[[Path], Path], owner: str
) -> _Options:
    """The options of the replay or the stand-in among those of a test.

    `find` resolves paths; `owner` names the replay or the stand-in in errors.  Raises InputError.
    """
    names: list[str] = [field.name for field in fields(type_) if field.init]
    known = [*names, *CRITERIA]
    for name in options:
        if name not in known:
            hint = choices_hint(name, known)
            raise InputError(f"{owner} has no option {printable(name)}{hint}" + ("" if hint.endswith("?") else "."))
    return type_(**{name: _resolve(name, value, find) for name, value in options.items() if name in names})


def _resolve(name: str, value: Any, find: Callable[[Path], Path]) -> Any:
    """The value of an option; if it is the path of a file, resolved."""
    if name == "contract" and isinstance(value, str) and not value.endswith(".toml"):
        return value  # a name
    if name not in {"contract", "faults", "service"} or not isinstance(value, str | Path) or value == "":
        return value
    return value if isinstance(value, str) and is_toml_text(value) else find(Path(value))


def _rules(allowed: object, config: Config) -> tuple[str, ...]:
    catalogue = config.settings.catalogue
    try:
        allowed_codes = {code for prefix in string_list("allow", allowed) for code in codes_of(prefix, catalogue)}
    except UnknownCodeError as error:
        raise InputError(f"allow: {printable(str(error).replace('Unknown', 'unknown', 1))}") from None
    codes = config.rule_codes() - allowed_codes
    return tuple(code for code in client_rules(catalogue) if code in codes)
