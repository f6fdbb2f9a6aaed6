"""`wiretape trim`: the part of a recording that matters, without what was forgotten."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.labels import count_of, finding_line
from wiretape.observations import Observation
from wiretape.recording import Recording, RecordingMetadata, RecordingSource, open_recording
from wiretape.rules.selection import EVERY, UnknownCodeError, codes_of
from wiretape.safe_text import printable
from wiretape_inspect import atomic_output
from wiretape_inspect.commands.duration_option import time_like
from wiretape_inspect.humanize import amount
from wiretape_inspect.merging.joining import closed_captures
from wiretape_inspect.trimming.choice import Choice, Observe, observed
from wiretape_inspect.trimming.redaction import Redaction
from wiretape_inspect.trimming.search import Smallest, smallest
from wiretape_inspect.trimming.secrets import Secrets


def _prefix(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    """How the codes of some rules begin."""
    if given is None:
        return None
    try:
        codes_of(given or EVERY)
    except UnknownCodeError as error:
        raise InputError(str(error)) from None
    return given.strip().upper() or EVERY


def _secrets(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> Secrets:
    return Secrets.of(given)


@click.command()
@click.argument("file", type=PATH)
@click.option("--session", metavar="ID", help="Only the exchanges of this session.")
@click.option("--exchange", "numbers", type=int, multiple=True, metavar="N", help="Only this exchange. Repeatable.")
@click.option(
    "--since", callback=time_like("90s"), metavar="TIME", help="Only exchanges that still went on then: 90s, 2min."
)
@click.option(
    "--until", callback=time_like("90s"), metavar="TIME", help="Only what came until then; what goes on is left open."
)
@click.option(
    "--to-first-finding",
    "prefix",
    callback=_prefix,
    is_flag=False,
    flag_value="",
    metavar="[CODE]",
    help="Only what the first finding needs, of all rules, or of those whose codes begin with CODE.",
)
@click.option(
    "--redact",
    "secrets",
    multiple=True,
    callback=_secrets,
    metavar="WHAT",
    help="Take out header:NAME, json:$.path or text:LITERAL. Repeatable.",
)
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", required=True, help="The new recording.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def trim(
    file: Path,
    *,
    session: str | None,
    numbers: tuple[int, ...],
    since: int | None,
    until: int | None,
    prefix: str | None,
    secrets: Secrets,
    to: Path,
    force: bool,
) -> None:
    """Make a smaller recording of FILE, which is left as it is.

    What is kept keeps its bytes, its times and its numbers. TIME is counted from the beginning of the recording.

    With --to-first-finding, exchanges are left out and then frames of event streams, for as long as the rules still
    find the same: the smallest recording to hand on.

    \b
    Examples:
        wiretape trim run.db --session ses_1 --output ses_1.db
        wiretape trim run.db --to-first-finding SEQ --output seq.db
        wiretape trim run.db --redact header:X-Tenant --redact 'json:$..password' --output clean.db
    """
    choice = Choice(session, numbers, since, until)
    if choice == Choice() and prefix is None and not secrets:
        raise click.UsageError(
            "Say what to keep (--session, --exchange, --since, --until, --to-first-finding) or take out (--redact)."
        )
    if since is not None and until is not None and since > until:
        raise click.UsageError("--since is later than --until.")
    atomic_output.check(to, [file], force=force)
    with open_recording(file) as recording:
        kept = _kept(recording, choice, secrets)
        fewest = None if prefix is None else smallest(kept.observe, prefix)
        observations = kept.observe() if fewest is None else iter(fewest.observations)
        # What the user is told of the finding is seen in the recording that was made, before it is put in its place.
        shown: list[str] = []
        atomic_output.place(
            RecordingSource(kept.head, observations), to, lambda made: shown.extend(_look(made, fewest))
        )
    if missed := kept.missed():
        click.echo(f"Nothing was found, and so nothing redacted, of {', '.join(missed)}.", err=True)
    for sentence in (*kept.told, *shown):
        click.echo(sentence)
    click.echo(_sizes(file, to))


@dataclass(frozen=True, slots=True)
class _Kept:
    head: RecordingMetadata
    observe: Observe
    told: Sequence[str] = ()
    missed: Callable[[], Sequence[str]] = tuple
    """What was to be redacted and was not found, once all is read."""


def _kept(recording: Recording, choice: Choice, secrets: Secrets) -> _Kept:
    """What the choice leaves, without the secrets."""
    numbers = choice.exchanges(recording)
    info = recording.info
    captures = closed_captures(recording)
    if not secrets:
        head = RecordingMetadata(info.upstream, info.started_unix_ns, captures, info.redacted)
        return _Kept(head, lambda: observed(recording, numbers, choice.until_ns))
    redaction = Redaction.of(recording, (each for each in recording.exchanges() if each.number in numbers), secrets)
    upstream, _ = redaction.literals.words(info.upstream)

    def observe() -> Iterator[Observation]:
        return redaction.applied(observed(recording, numbers, choice.until_ns))

    head = RecordingMetadata(upstream, info.started_unix_ns, captures, info.redacted + redaction.count)
    return _Kept(head, observe, list(redaction.told()), lambda: list(redaction.missed()))


def _look(made: Recording, fewest: Smallest | None) -> Iterator[str]:
    """What there is to say of the recording that was made.  Raises InputError where it does not show the finding."""
    exchanges = sum(1 for _ in made.exchanges())
    found = sum(1 for _ in made.findings())
    if fewest is not None:
        now = fewest.shown_in(made.observations())
        if now is None:
            raise InputError("The finding does not come up in what would be kept: nothing was written.")
        yield finding_line(now.severity, now.code, now.exchange, now.event, now.message)
        was = fewest.finding.event
        if was != now.event:
            yield f"It is about event {now.event} here, which is event {was} of the whole recording."
        left_out = [count_of(fewest.exchanges, "exchange"), f"{count_of(fewest.frames, 'frame')} of streams"]
        yield f"Left out: {' and '.join(left_out)}. Streams are kept as if what is left out had never been sent."
    yield f"{count_of(exchanges, 'exchange')}, {count_of(found, 'finding')}."


def _sizes(file: Path, to: Path) -> str:
    before, after = file.stat().st_size, to.stat().st_size
    return f"{printable(str(to))}: {amount(after)} of {amount(before)}."
