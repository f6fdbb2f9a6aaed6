"""Reports on what the client did: those of `wiretape report`, made of a recording of what passed."""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from wiretape import labels
from wiretape.cli import subcommand
from wiretape.config import NEVER, Config, find_config, load_config
from wiretape.errors import InputError
from wiretape.files import check_writable
from wiretape.labels import count_of
from wiretape.recording import check_not_recording
from wiretape.rules import CATALOGUE, Finding, Party, Severity
from wiretape.safe_text import closest_match, printable
from wiretape_replay.client_verdict.attribution import Attribution, FindingCounts
from wiretape_replay.client_verdict.client_checker import ClientChecker

_STDOUT = "-"
CLIENT_RULES = tuple(code for code, rule in CATALOGUE.items() if rule.side is Party.CLIENT)
"""The codes of the rules for clients."""


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
        forms = _forms()
        if not colon or not file:
            raise InputError(
                f"Invalid --report {printable(text)!r}: expected FORMAT:FILE, for example junit:report.xml."
            )
        if form not in forms:
            similar = closest_match(form, forms)
            guess = f"did you mean {similar}?" if similar else f"choose from {', '.join(forms)}."
            raise InputError(f"Unknown report format {printable(form)!r}; {guess}")
        if file != _STDOUT:
            check_writable(Path(file))
            check_not_recording(Path(file), "--report")
        return cls(form, file)


def check_apart(wanted: Sequence[ReportRequest], record: Path | None) -> None:
    """Raise InputError if two of the files to write are the same."""
    written = {record.absolute()} if record is not None else set()
    for report in wanted:
        file = Path(report.file).absolute()
        if file in written:
            raise InputError(f"Two outputs have the name {printable(report.file)}: give --report another name.")
        written.add(file)


@contextmanager
def recorded(record: Path | None, wanted: Sequence[ReportRequest]) -> Iterator[Path | None]:
    """Where to record the traffic: in `record`, or for reports in a temporary file until the block ends."""
    if record is not None or not wanted:
        yield record
        return
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        yield Path(folder) / "replayed.db"


def write(
    wanted: Sequence[ReportRequest],
    recording: Path,
    config: Sequence[str],
    *,
    rules: Collection[str] = CLIENT_RULES,
    fail_on: str = NEVER,
) -> bool:
    """Write the reports about these client rules; `config` are the options that name a configuration.

    Returns whether a finding is at least as severe as `fail_on`.  Raises InputError if a report cannot be written.
    """
    asked = [str(recording), "--select", ",".join(rules), "--fail-on", fail_on, *config]
    for report in wanted:
        asked += ["--format", report.form]
        asked += ["--output", report.file] if report.file != _STDOUT else []
    return bool(subcommand("report").main(asked, prog_name="wiretape report", standalone_mode=False))


def _forms() -> Sequence[str]:
    """The formats of `wiretape report`."""
    kinds = (option.type for option in subcommand("report").params if "--format" in option.opts)
    return [str(form) for kind in kinds if isinstance(kind, click.Choice) for form in kind.choices]


NEVER = "never"


def verdict(blame: Attribution, recording: str) -> Iterator[str]:
    """The lines of the verdict; `recording` is the name of the recording, safe to print."""
    if blame.client:
        rules = count_of(len(blame.client.codes), "rule")
        yield f"The client broke {rules} ({count_of(len(blame.client), 'finding')}):"
        for finding in _first_of_each(blame.client):
            yield f"  {_told(finding)}{_more(blame.client.codes[finding.code] - 1)}"
    else:
        yield "The client broke no rule."
    if blame.service or blame.injected:
        yield _of_the_service(blame, recording)


def fails(blame: Attribution, fail_on: str) -> bool:
    """Whether a client finding is at least as severe as `fail_on`."""
    return fail_on != NEVER and blame.client.reaches(Severity(fail_on))


def _of_the_service(blame: Attribution, recording: str) -> str:
    injected = count_of(len(blame.injected), "finding")
    if not blame.service:
        return f"Injected faults caused {injected} against the service."
    rules, findings = count_of(len(blame.service.codes), "rule"), count_of(len(blame.service), "finding")
    more = f", and injected faults caused {len(blame.injected):,} more" if blame.injected else ""
    return f"The recorded service breaks {rules} ({findings}; see `wiretape report {recording}`){more}."


def _first_of_each(findings: FindingCounts) -> list[Finding]:
    """The first finding of each rule, the most severe rules first."""
    first: dict[str, Finding] = {}
    for finding in findings.kept:
        first.setdefault(finding.code, finding)
    worst, order = list(Severity), list(CATALOGUE)
    return sorted(first.values(), key=lambda finding: (worst.index(finding.severity), order.index(finding.code)))


def _told(finding: Finding) -> str:
    return labels.finding_line(finding.severity, finding.code, finding.exchange, finding.event, finding.message)


def _more(number: int) -> str:
    return f" (and {number:,} more)" if number else ""


@dataclass(frozen=True, slots=True)
class ClientVerdict:
    """Checks the client, prints the verdict and writes the reports."""

    judge: ClientChecker
    _wanted: Sequence[ReportRequest]
    _recording: Path | None
    _config: Sequence[str]

    @staticmethod
    @contextmanager
    def of(
        reports: Sequence[str], record: Path | None, config: Path | None, *, no_config: bool
    ) -> "Iterator[ClientVerdict]":
        """From the options.  A recording made only for reports is deleted after the block.  Raises InputError."""
        settings = _config(config, without=no_config).settings
        wanted = [ReportRequest.of(text) for text in reports]
        check_apart(wanted, record)
        named = ["--no-config"] if no_config else ["--config", str(config)] if config is not None else []
        with recorded(record, wanted) as path:
            yield ClientVerdict(ClientChecker(settings, record=path), wanted, path, named)

    def verdict(self, played: Path) -> Iterator[str]:
        """The lines to print when the replay of the recording `played` has ended."""
        yield from verdict(self.judge.blame, printable(str(played)))
        if self.judge.failed is not None:
            yield f"The checks failed ({printable(self.judge.failed)}): findings may be missing."

    def report(self, fail_on: str) -> None:
        """Write the reports; findings at least as severe as `fail_on` are failures in them.  Raises InputError."""
        if self._recording is not None and self._wanted:
            write(self._wanted, self._recording, self._config, fail_on=fail_on)


def _config(path: Path | None, *, without: bool) -> Config:
    if path is not None and without:
        raise InputError("Give --config or --no-config, not both.")
    if without:
        return Config()
    return load_config(path) if path is not None else find_config(Path.cwd())
