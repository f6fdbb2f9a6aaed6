"""The criteria by which a client fails a test, and the message of a test that fails."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from wiretape import labels
from wiretape.config import FAIL_ON, INCONCLUSIVE, NEVER, Config, threshold_of
from wiretape.errors import InputError, RecordingError
from wiretape.input_validation import choices_hint
from wiretape.labels import count_of
from wiretape.rules import Finding, Severity, UnknownCodeError, codes_of
from wiretape.safe_text import printable, shorten
from wiretape.toml_files import is_toml_text
from wiretape_replay.client_verdict.client_report import CLIENT_RULES, ReportRequest, inconclusive_lines, write
from wiretape_replay.server_options import ReplayOptions, ServeOptions, check_choice, string_list
from wiretape_replay.verbatim.verbatim_player import UnmatchedRequest

CRITERIA = ("fail_on", "allow", "allow_misses", "faults_may_miss")
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
    if name not in {"faults", "service"} or not isinstance(value, str | Path) or value == "":
        return value
    return value if isinstance(value, str) and is_toml_text(value) else find(Path(value))


def _rules(allowed: object, config: Config) -> tuple[str, ...]:
    try:
        allowed_codes = {code for prefix in string_list("allow", allowed) for code in codes_of(prefix)}
    except UnknownCodeError as error:
        raise InputError(f"allow: {printable(str(error).replace('Unknown', 'unknown', 1))}") from None
    codes = config.rule_codes() - allowed_codes
    return tuple(code for code in CLIENT_RULES if code in codes)


_CHECKS_FAILED = "wiretape's checks failed, so there may be more findings: {}."
_MOST_LISTED = 10
_NONE: Mapping[str, Mapping[str, int]] = {}


def failure_message(
    findings: Sequence[Finding],
    misses: Sequence[UnmatchedRequest],
    criteria: ClientCriteria,
    record: Path,
    keep: Callable[[], None],
    *,
    inconclusive: Mapping[str, Mapping[str, int]] = _NONE,
    unused_faults: Sequence[str] = (),
    report_options: Sequence[str] = (),
    checks_failed: str | None = None,
) -> str | None:
    """Why a test fails, with the report on the client; None if it does not fail.

    If it fails, `keep` is called to write the recording `record`, from which the report is made.
    `inconclusive` are the client rules that could not be decided, with the reasons; `unused_faults` are the names of
    faults that never matched; `report_options` are further options of `wiretape report`; `checks_failed` is
    the error that stopped the checks.
    """
    findings = [finding for finding in findings if _is_failure(finding, criteria)]
    inconclusive = {code: reasons for code, reasons in inconclusive.items() if code in criteria.rules}
    undecided = list(inconclusive) if criteria.fail_on == INCONCLUSIVE else []
    misses = [] if criteria.allow_misses else misses
    unused_faults = [] if criteria.faults_may_miss else unused_faults
    checks = [_CHECKS_FAILED.format(printable(checks_failed))] if checks_failed and criteria.fail_on != NEVER else []
    if not findings and not undecided and not misses and not unused_faults and not checks:
        return None
    recording = keep_recording(record, keep)
    report = _report(findings, criteria, record, report_options) if findings else []
    problems = list(_problems(findings if report else [], undecided, misses, unused_faults))
    if not problems and not checks:
        return None  # all findings are in the baseline
    text = "; ".join(problems)
    headline = [f"{text[0].upper()}{text[1:]}."] if problems else []
    # The report has a line about inconclusive rules.
    more = [*([""] if report else []), *report] if report else list(inconclusive_lines(inconclusive))
    return "\n".join([*headline, *checks, *more, *_list_misses(misses), recording])


def keep_recording(record: Path, keep: Callable[[], None]) -> str:
    """Write the recording, and return a sentence that names it."""
    try:
        keep()
    except RecordingError as error:
        return str(error)
    return f"The traffic is recorded in {printable(str(record))}."


def _is_failure(finding: Finding, criteria: ClientCriteria) -> bool:
    return finding.code in criteria.rules and finding.severity.reaches(threshold_of(criteria.fail_on))


def _report(findings: Sequence[Finding], criteria: ClientCriteria, record: Path, options: Sequence[str]) -> list[str]:
    """The lines of the report, none if the baseline has all findings; without a recording, a line for each finding."""
    if not record.exists():
        lines = [
            labels.finding_line(each.severity, each.code, each.exchange, each.event, each.message) for each in findings
        ]
        return [*lines, ""]
    file = criteria.config.file
    config = ["--no-config"] if file is None else ["--config", str(file)]
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        path = Path(folder) / "report.txt"
        failed = write(
            [ReportRequest("text", str(path))],
            record,
            [*config, *options],
            rules=criteria.rules,
            fail_on=(threshold_of(criteria.fail_on) or Severity.ERROR).value,  # inconclusive rules are listed anyway
        )
        return path.read_text("utf-8").splitlines() if failed else []


def _problems(
    findings: Sequence[Finding],
    inconclusive: Sequence[str],
    misses: Sequence[UnmatchedRequest],
    unused_faults: Sequence[str],
) -> Iterator[str]:
    """The parts of the headline."""
    codes = list(dict.fromkeys(finding.code for finding in findings))
    if codes:
        yield f"the client broke {_name_rules(codes)} ({count_of(len(findings), 'finding')})"
    if inconclusive:
        yield f"{_name_rules(inconclusive)} {'was' if len(inconclusive) == 1 else 'were'} inconclusive"
    if misses:
        yield f"{count_of(len(misses), 'request')} had no match"
    if unused_faults:
        names = " and ".join(shorten(name, 60) for name in unused_faults)
        yield f"the fault{'s' * (len(unused_faults) > 1)} {names} never matched"


def _name_rules(codes: Sequence[str]) -> str:
    return f"rule{'s' * (len(codes) > 1)} {' and '.join(codes)}"


def _list_misses(misses: Sequence[UnmatchedRequest]) -> Iterator[str]:
    """Each request without a match once, with the recorded requests most similar to it."""
    messages = list(dict.fromkeys(printable(missed.message) for missed in misses))
    yield from messages[:_MOST_LISTED]
    if len(messages) > _MOST_LISTED:
        yield f"… and {len(messages) - _MOST_LISTED:,} more"
