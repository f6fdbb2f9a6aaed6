"""`wiretape trim`: cut a recording down, or redact it."""

from collections.abc import Iterator
from pathlib import Path

import click

from wiretape.checker import EVERY, Settings, UnknownCodeError, codes_of
from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.labels import count_of, finding_line
from wiretape.observations import Observation
from wiretape.recording import (
    Recording,
    RecordingMetadata,
    RecordingSource,
    RedactionPolicy,
    open_recording,
    settings_of,
)
from wiretape.safe_text import printable
from wiretape.units import Duration, format_size
from wiretape_inspect.atomic_output import check_recording_output, describe_contents, write_recording
from wiretape_inspect.exchange_selection import ObservationReader, RecordingPart, closed_captures, read_part
from wiretape_inspect.minimize import MinimalRecording, find_finding, minimize
from wiretape_inspect.recording_redaction import RecordingRedaction, parse_targets


def _prefix(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    """A prefix of rule codes."""
    return None if given is None else given.strip().upper() or EVERY


def _check_prefix(prefix: str, settings: Settings) -> None:
    try:
        codes_of(prefix, settings.catalogue)
    except UnknownCodeError as error:
        raise InputError(str(error)) from None


@click.command()
@click.argument("file", type=PATH)
@click.option("--channel", metavar="ID", help="Keep only the exchanges of this channel, such as a session.")
@click.option(
    "--exchange", "numbers", type=int, multiple=True, metavar="N", help="Keep only this exchange. Repeatable."
)
@click.option(
    "--since",
    type=Duration("90s"),
    metavar="TIME",
    help="Keep only exchanges in progress at this time or later, e.g. 90s.",
)
@click.option(
    "--until", type=Duration("90s"), metavar="TIME", help="Keep only what arrived up to this time, e.g. 2min."
)
@click.option(
    "--to-first-finding",
    "prefix",
    callback=_prefix,
    is_flag=False,
    flag_value="",
    metavar="[CODE]",
    help="Keep only what is needed to show the first finding (for CODE, if given).",
)
@click.option(
    "--redact",
    "targets",
    multiple=True,
    callback=lambda _context, _parameter, given: parse_targets(given),
    metavar="WHAT",
    help="Redact header:NAME, query:NAME, json:$.path or text:LITERAL. Repeatable.",
)
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", required=True, help="Recording to write.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def trim(
    file: Path,
    *,
    channel: str | None,
    numbers: tuple[int, ...],
    since: int | None,
    until: int | None,
    prefix: str | None,
    targets: RedactionPolicy,
    to: Path,
    force: bool,
) -> None:
    """Write a smaller copy of the recording FILE. FILE itself is not changed.

    Exchanges keep their numbers, times and, unless redacted, bytes. TIME is measured from the start of the recording.
    Exchanges that are still in progress at --until are left open.

    --to-first-finding removes exchanges, and then frames of event streams, for as long as the rules still report the
    same finding. What remains is a small recording that shows this finding.

    \b
    Examples:
        wiretape trim run.db --channel ses_1 --output ses_1.db
        wiretape trim run.db --to-first-finding SEQ --output seq.db
        wiretape trim run.db --redact header:X-Tenant --redact 'json:$..password' --output clean.db
    """
    part = RecordingPart(channel, numbers, since, until)
    if part == RecordingPart() and prefix is None and targets == RedactionPolicy():
        raise click.UsageError(
            "Select what to keep (--channel, --exchange, --since, --until, --to-first-finding) or what to --redact."
        )
    if since is not None and until is not None and since > until:
        raise click.UsageError("--since is later than --until.")
    check_recording_output(to, [file], force=force)
    with open_recording(file) as recording:
        head, read, redaction = _select(recording, part, targets)
        settings = settings_of(head.contracts)
        _check_prefix(prefix or EVERY, settings)
        minimal = None if prefix is None else minimize(read, prefix, settings, upstream=head.upstream)
        observations = read() if minimal is None else iter(minimal.observations)
        # The summary comes from the new recording, before it is moved into place.
        summary: list[str] = []
        write_recording(
            RecordingSource(head, observations), to, lambda written: summary.extend(_summarize(written, minimal))
        )
    if redaction is not None:
        # Complete once everything is read.
        if not_found := list(redaction.not_found()):
            click.echo(f"Not found, and therefore not redacted: {', '.join(not_found)}.", err=True)
        summary = [*redaction.summary(), *summary]
    for sentence in summary:
        click.echo(sentence)
    before, after = file.stat().st_size, to.stat().st_size
    click.echo(f"{printable(str(to))}: {format_size(after)}, from {format_size(before)}.")


def _select(
    recording: Recording, part: RecordingPart, targets: RedactionPolicy
) -> tuple[RecordingMetadata, ObservationReader, RecordingRedaction | None]:
    """Select a part; return its metadata, its observations without the secrets, and what was redacted, if anything."""
    numbers = part.select_exchanges(recording)
    info, captures = recording.info, closed_captures(recording)

    def read() -> Iterator[Observation]:
        return read_part(recording, numbers, part.until_ns)

    if targets == RedactionPolicy():
        head = RecordingMetadata(
            info.upstream, info.started_unix_ns, captures, info.redacted, info.contracts, info.probe
        )
        return head, read, None
    exchanges = (each for each in recording.exchanges() if each.number in numbers)
    redaction = RecordingRedaction(recording, exchanges, targets)
    upstream = redaction.redact_text(info.upstream)
    contracts, probe = (each and redaction.redact_text(each) for each in (info.contracts, info.probe))
    count = info.redacted + redaction.count
    head = RecordingMetadata(upstream, info.started_unix_ns, captures, count, contracts, probe)
    return head, lambda: redaction.apply(read()), redaction


def _summarize(written: Recording, minimal: MinimalRecording | None) -> Iterator[str]:
    """Describe the new recording.  Raises InputError if it does not show the finding."""
    if minimal is not None:
        upstream = written.info.upstream
        now = find_finding(
            written.observations(), minimal.finding, settings_of(written.info.contracts), upstream=upstream
        )
        if now is None:
            raise InputError("The finding does not occur in the part that would be kept; nothing was written.")
        yield finding_line(now.severity, now.code, now.exchange, now.event, now.message)
        was = minimal.finding.event
        if was != now.event:
            yield f"Event {now.event} is event {was} of the original recording."
        exchanges, frames = count_of(minimal.removed_exchanges, "exchange"), count_of(minimal.removed_frames, "frame")
        yield (
            f"Removed: {exchanges} and {frames} of streams. "
            "The streams look as if the removed frames had never been sent."
        )
    yield f"{describe_contents(written)}."
