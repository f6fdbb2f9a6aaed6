"""The options of a test: how something is played, and what the client must not do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from wiretape.config import NEVER, Config
from wiretape.errors import InputError
from wiretape.rules import Severity, UnknownCodeError, codes_of
from wiretape.safe_text import closest_match, printable
from wiretape.toml_files import is_toml_text
from wiretape_replay.client_verdict.client_report import CLIENT_RULES
from wiretape_replay.replay_options import ReplayOptions, check_choice, string_list
from wiretape_replay.service.serve_options import ServeOptions

CRITERIA = ("fail_on", "allow", "allow_misses")
"""The options of a test that a replay or service does not have."""
_THRESHOLDS = (*(severity.value for severity in Severity), NEVER)
_Options = TypeVar("_Options", ReplayOptions, ServeOptions)


@dataclass(frozen=True, slots=True)
class ClientCriteria:
    """What makes a test fail."""

    config: Config
    """Configuration of the rules."""
    fail_on: str
    """The test fails if a finding is at least this severe: `error` (the default), `warning`, `note` or `never`."""
    rules: tuple[str, ...]
    """The codes of the client rules that must not be broken."""
    allow_misses: bool = False
    """Whether requests without a match are allowed."""

    @classmethod
    def of(cls, given: Mapping[str, Any], config: Config) -> "ClientCriteria":
        """The criteria among the options of a test.  Raises InputError."""
        fail_on = given.get("fail_on") or config.fail_on or Severity.ERROR.value
        check_choice("fail_on", fail_on, _THRESHOLDS)
        return cls(config, str(fail_on), _rules(given.get("allow", ()), config), bool(given.get("allow_misses")))


def options_in(kind: type[_Options], given: Mapping[str, Any], find: Callable[[Path], Path], what: str) -> _Options:
    """The options of the replay or service among those of a test.  `find` resolves paths.  Raises InputError."""
    known: list[str] = [each.name for each in fields(kind) if each.init]
    refuse_unknown(given, [*known, *CRITERIA], what)
    return kind(**{name: _located(name, value, find) for name, value in given.items() if name in known})


def refuse_unknown(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    """Raise InputError for an option that `what` does not have."""
    for name in given:
        if name not in known:
            similar = closest_match(name, known)
            guess = f"did you mean {similar}?" if similar else f"choose from {', '.join(known)}."
            raise InputError(f"{what} has no option {printable(name)}; {guess}")


def _located(name: str, value: Any, find: Callable[[Path], Path]) -> Any:
    """The value of an option, with the path of a file resolved."""
    if name not in {"faults", "service"} or not isinstance(value, str | Path):
        return value
    return value if isinstance(value, str) and is_toml_text(value) else find(Path(value))


def _rules(allowed: object, config: Config) -> tuple[str, ...]:
    try:
        allowed_codes = {code for prefix in string_list("allow", allowed) for code in codes_of(prefix)}
    except UnknownCodeError as error:
        raise InputError(f"allow: {printable(str(error))}") from None
    codes = config.rule_codes() - allowed_codes
    return tuple(code for code in CLIENT_RULES if code in codes)
