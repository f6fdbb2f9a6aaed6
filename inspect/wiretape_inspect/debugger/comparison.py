"""The comparison of the recording with another one, as JSON lines for the page."""

from collections.abc import Iterator
from typing import Any

from wiretape.event_facts import facts_of
from wiretape.json_codec import dump_json
from wiretape.recording import Recording
from wiretape_inspect.diff.diff_model import DiffOptions, DiffTotal, Location
from wiretape_inspect.diff.diff_output import documents, total_document
from wiretape_inspect.diff.recording_diff import RecordingDiff

TOLERANCE_NS = 200_000_000
"""An event that comes this much later or earlier is reported."""


def difference_lines(first: Recording, second: Recording) -> Iterator[str]:
    """Yield the lines of `wiretape diff --json` with `--timing 200ms`; each difference has a preview of its events.

    Ids and times are normalized if the recordings have no session in common.
    """
    sessions = [{exchange.session_id for exchange in each.exchanges()} - {None} for each in (first, second)]
    is_normalized = not sessions[0] & sessions[1]
    options = DiffOptions(ids=is_normalized, times=is_normalized, tolerance_ns=TOLERANCE_NS)
    total = DiffTotal()
    normalized = ["ids", "times"] if is_normalized else []
    yield dump_json({"row": "diff", "a": first.path.name, "b": second.path.name, "normalized": normalized})
    for diff in RecordingDiff(first, second, options).compare_all():
        total.add(diff)
        for entry, document in zip(diff.entries, documents(diff), strict=True):
            yield dump_json(document | {"previews": [_preview(first, entry.first), _preview(second, entry.second)]})
    yield dump_json(total_document(total))


def _preview(recording: Recording, location: Location | None) -> dict[str, Any] | None:
    """Return the type, the sequence and the beginning of the content of an event; None if there is no event."""
    if location is None or location.event is None:
        return None
    seen = next(recording.frames(location.exchange, location.event), None)
    if seen is None:
        return None
    facts = facts_of(seen.frame)
    return {"type": facts.type, "sequence": facts.sequence, "text": facts.text}
