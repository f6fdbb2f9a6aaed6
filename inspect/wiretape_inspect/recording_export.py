"""The formats that a recording can be exported to, from a terminal and from the page."""

from collections.abc import Iterator

from wiretape.errors import InputError
from wiretape.recording import Recording
from wiretape.recording.formats import FORMATS, find_format
from wiretape.safe_text import shorten
from wiretape_inspect.exchange_selection import select_stream

SUMMARIES = {
    **{each.name: each.summary for each in FORMATS if each.writes},
    "events": "one JSON object per exchange and per event, for jq and other programs",
    "html": "the `wiretape debug` page as one file",
    "otlp": "OpenTelemetry spans, encoded as protobuf for an OTLP/HTTP request",
}
"""What each format is, by its name."""


def export_parts(
    recording: Recording, kind: str, number: int | None = None, *, encoded: bool = False, sensitive: bool = False
) -> Iterator[bytes]:
    """Yield a recording, or one exchange of it, in a format.  Raises InputError at once."""
    if kind not in SUMMARIES:
        raise InputError(f"Unknown format '{shorten(kind, 60)}': expected {', '.join(SUMMARIES)}.")
    if kind == "sse":
        from wiretape.recording.formats.raw_stream import write_stream  # noqa: PLC0415 - loaded only when it is used

        return write_stream(recording, select_stream(recording, number), encoded=encoded)
    chosen = None if number is None else [recording.exchange(number)]
    if kind == "events":
        from wiretape_inspect.event_export import event_lines  # noqa: PLC0415 - loaded only when it is used

        lines = event_lines(recording, recording.exchanges() if chosen is None else chosen)
        return (f"{line}\n".encode() for line in lines)
    if kind == "html":
        from wiretape_inspect.page_export import export_page  # noqa: PLC0415 - loaded only when it is used
        from wiretape_inspect.report.evidence import evidence_document  # noqa: PLC0415 - the same
        from wiretape_inspect.report.finding_location import locate_one  # noqa: PLC0415 - the same

        found = recording.findings(number)
        findings = [evidence_document(recording, locate_one(recording, finding)) for finding in found]
        return export_page(recording, chosen, findings=findings)
    if kind == "otlp":
        from wiretape_inspect.otlp_export import otlp_parts  # noqa: PLC0415 - loaded only when it is used

        return otlp_parts(recording, chosen)
    if kind == "har":
        from wiretape.recording.formats.har_writer import write  # noqa: PLC0415 - loaded only when it is used

        return write(recording, chosen, sensitive=sensitive)
    return find_format(kind).write(recording, chosen)
