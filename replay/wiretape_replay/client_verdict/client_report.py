"""The client verdict: its lines, and the reports that `wiretape report` writes from a recording of the traffic."""

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import click

from wiretape import labels
from wiretape.cli import subcommand
from wiretape.config import FAIL_ON, INCONCLUSIVE, NEVER, Config, find_config, load_config, threshold_of
from wiretape.errors import InputError
from wiretape.files import check_writable
from wiretape.labels import count_of
from wiretape.recording import check_not_recording
from wiretape.rules import Finding, Party, Rule, Severity
from wiretape.safe_text import closest_match, printable
from wiretape_replay.client_verdict.client_checker import Attribution, ClientChecker, FindingCounts
from wiretape_replay.server_options import option

_STDOUT = "-"


def client_rules(catalogue: Mapping[str, Rule]) -> tuple[str, ...]:
    """Return the codes of the rules for clients."""
    return tuple(code for code, rule in catalogue.items() if rule.side is Party.CLIENT)


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A report to write."""

    form: str
    file: str
    """`-` for standard output."""

    @classmethod
    def of(cls, text: str) -> "ReportRequest":
        """Read FORMAT:FILE.  Raises InputError."""
        form, colon, file = text.partition(":")
        formats = _formats()
        if not colon or not file:
            raise InputError(
                f"Invalid --report {printable(text)!r}: expected FORMAT:FILE, for example junit:report.xml."
            )
        if form not in formats:
            similar = closest_match(form, formats)
            guess = f"did you mean {similar}?" if similar else f"choose from {', '.join(formats)}."
            raise InputError(f"Unknown report format {printable(form)!r}; {guess}")
        if file != _STDOUT:
            check_writable(Path(file))
            check_not_recording(Path(file), "--report")
        return cls(form, file)


def check_apart(reports: Sequence[ReportRequest], record: Path | None) -> None:
    """Raise InputError if two of the files to write are the same."""
    written = {record.absolute()} if record is not None else set()
    for report in reports:
        file = Path(report.file).absolute()
        if file in written:
            raise InputError(f"Two outputs have the name {printable(report.file)}: choose another name for --report.")
        written.add(file)


def write(
    reports: Sequence[ReportRequest],
    recording: Path,
    options: Sequence[str],
    *,
    rules: Collection[str],
    fail_on: str = NEVER,
) -> bool:
    """Write the reports about these client rules; `options` are further options of `wiretape report`.

    Returns whether a finding is at least as severe as `fail_on`, or a rule is inconclusive if that is `inconclusive`.
    Raises InputError if a report cannot be written.
    """
    arguments = [str(recording), "--select", ",".join(rules), "--fail-on", fail_on, *options]
    for report in reports:
        arguments += ["--format", report.form]
        arguments += ["--output", report.file] if report.file != _STDOUT else []
    return bool(subcommand("report").main(arguments, prog_name="wiretape report", standalone_mode=False))


def _formats() -> Sequence[str]:
    """The formats of `wiretape report`."""
    kinds = (option.type for option in subcommand("report").params if "--format" in option.opts)
    return [str(form) for kind in kinds if isinstance(kind, click.Choice) for form in kind.choices]


def verdict(
    attribution: Attribution,
    recording: str,
    catalogue: Mapping[str, Rule],
    inconclusive: Mapping[str, Mapping[str, int]] | None = None,
) -> Iterator[str]:
    """The lines of the verdict; `recording` is the name of the recording, safe to print.

    `inconclusive` are the client rules that could not be decided, with the reasons.
    """
    if attribution.client:
        rules = count_of(len(attribution.client.codes), "rule")
        yield f"The client broke {rules} ({count_of(len(attribution.client), 'finding')}):"
        for finding in _first_of_each(attribution.client, catalogue):
            yield f"  {finding_line(finding)}{_more(attribution.client.codes[finding.code] - 1)}"
    elif not inconclusive:
        yield "The client broke no rules."
    if inconclusive:
        rules = f"{count_of(len(inconclusive), 'rule')} {'was' if len(inconclusive) == 1 else 'were'} inconclusive:"
        yield rules if attribution.client else f"The client broke no rules, but {rules}"
        yield from (f"  {line}" for line in inconclusive_lines(inconclusive, catalogue))
    if attribution.service or attribution.injected:
        yield _service_line(attribution, recording)


def inconclusive_lines(inconclusive: Mapping[str, Mapping[str, int]], catalogue: Mapping[str, Rule]) -> Iterator[str]:
    """A line for each inconclusive rule, with the reasons."""
    for code, reasons in inconclusive.items():
        listed = "; ".join(f"{reason} ({count_of(count, 'time')})" for reason, count in reasons.items())
        yield f"inconclusive {code} {catalogue[code].name}: {listed}"


def fails(attribution: Attribution, fail_on: str, inconclusive: Collection[str] = ()) -> bool:
    """Whether a client finding is at least as severe as `fail_on`, or that is `inconclusive` and a rule is."""
    threshold = threshold_of(fail_on)
    if fail_on == INCONCLUSIVE and inconclusive:
        return True
    return threshold is not None and attribution.client.reaches(threshold)


def _service_line(attribution: Attribution, recording: str) -> str:
    injected = count_of(len(attribution.injected), "finding")
    if not attribution.service:
        return f"Injected faults caused {injected} against the service."
    rules, findings = count_of(len(attribution.service.codes), "rule"), count_of(len(attribution.service), "finding")
    more = f", and injected faults caused {len(attribution.injected):,} more" if attribution.injected else ""
    broken = f"The replayed responses of the service break {rules} ({findings}){more}"
    return f"{broken}; `wiretape report {recording}` checks the whole recording."


def _first_of_each(findings: FindingCounts, catalogue: Mapping[str, Rule]) -> list[Finding]:
    """The first finding of each rule, the most severe rules first."""
    first: dict[str, Finding] = {}
    for finding in findings.kept:
        first.setdefault(finding.code, finding)
    worst, order = list(Severity), list(catalogue)
    return sorted(first.values(), key=lambda finding: (worst.index(finding.severity), order.index(finding.code)))


def finding_line(finding: Finding) -> str:
    """The line about a finding."""
    return labels.finding_line(finding.severity, finding.code, finding.exchange, finding.event, finding.message)


def _more(number: int) -> str:
    return f" (and {number:,} more)" if number else ""


_VERDICT = "Client verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictOptions:
    """How the client is judged, and what is written about it."""

    fail_on: str = option(
        NEVER,
        "--fail-on",
        _VERDICT,
        "Exit with status 1 if any client finding is at least this severe. With inconclusive, exit with "
        "status 1 if there is any client finding or any inconclusive client rule.",
        choices=FAIL_ON,
    )
    reports: Sequence[str] = option(
        (),
        "--report",
        _VERDICT,
        "At the end, write a report about the client, in any `wiretape report` format; FILE may be - for "
        "standard output. Repeatable.",
        metavar="FORMAT:FILE",
    )
    record: Path | None = option(None, "--record", _VERDICT, "Record the traffic in a new file.", is_file=True)
    config: Path | None = option(
        None,
        "--config",
        _VERDICT,
        "Configuration file for the rules.  [default: wiretape.toml or [tool.wiretape] in pyproject.toml, in "
        "the current or a parent folder]",
        is_file=True,
    )
    no_config: bool = option(False, "--no-config", _VERDICT, "Do not read a configuration file.")


@dataclass(frozen=True, slots=True)
class ClientVerdict:
    """Checks the client, and writes the verdict and the reports."""

    checker: ClientChecker
    _options: VerdictOptions
    _reports: Sequence[ReportRequest]
    _recording: Path | None

    def lines(self, name: str) -> Iterator[str]:
        """The lines of the verdict; `name` is the name of the recording that was replayed."""
        checker = self.checker
        yield from verdict(checker.attribution, printable(name), checker.catalogue, checker.inconclusive)
        if self.checker.failed is not None:
            yield f"The checks failed ({printable(self.checker.failed)}): findings may be missing."

    @property
    def fails(self) -> bool:
        """Whether the client fails, as `--fail-on` defines."""
        return fails(self.checker.attribution, self._options.fail_on, self.checker.inconclusive)

    def write_reports(self) -> None:
        """Write the reports, in which findings that `--fail-on` names are failures.  Raises InputError."""
        options = self._options
        if self._recording is not None and self._reports:
            config = ["--no-config"] if options.no_config else []
            config += ["--config", str(options.config)] if options.config is not None else []
            config += self.checker.report_options
            rules = client_rules(self.checker.catalogue)
            if rules:
                write(self._reports, self._recording, config, rules=rules, fail_on=options.fail_on)


@contextmanager
def check_client(options: VerdictOptions) -> Iterator[ClientVerdict]:
    """Check a client.  A recording that is only needed for reports is deleted after the block.  Raises InputError."""
    config = read_config(options)
    reports = [ReportRequest.of(text) for text in options.reports]
    check_apart(reports, options.record)
    with tempfile.TemporaryDirectory(prefix="wiretape-") if reports and not options.record else nullcontext() as folder:
        path = options.record if folder is None else Path(folder) / "replayed.db"
        checker = ClientChecker(lambda each: config.with_contracts(each).effective_settings(), record=path)
        yield ClientVerdict(checker, options, reports, path)


def read_config(options: VerdictOptions) -> Config:
    """The configuration that the options name.  Raises InputError."""
    if options.config is not None and options.no_config:
        raise InputError("--config and --no-config cannot be combined.")
    if options.no_config:
        return Config()
    return load_config(options.config) if options.config is not None else find_config(Path.cwd())
