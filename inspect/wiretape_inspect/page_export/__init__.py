"""Page export: the debugger's page as one file that contains its recording.

The page contains one JSON document in `<script type="application/json" id="data">`, with `<` written as `\\u003c`:

`{format: 1, answers, events, states}`

`answers`
    By path, such as `/api/rows?exchange=2`, what the API of the debugger answers (see `wiretape_inspect.debugger`): a
    list for an endpoint that answers with lines.  These are `recording`, in which `live` is false, and `replay` and
    `position` are null; `longest-silence`; for each exchange `rows` and `bodies`; for each stream `overview`, and `cut`
    for each row `cut`; and `resume` for each stream and the one before it in its session.
`events`, `states`
    By stream, the answers of `event` in two pieces.  Each is a list of blocks `{first, last, gzip}`: the numbers of the
    first and last event and, as gzip in base64, a JSON array with an item for each event.  In `events`, that is the
    answer without `state`; in `states`, the change from the state after the event before to the one after this event,
    as `page_document.find_change` describes it.  The first item of a block is `[state]`.

Filters have no answers: the page applies them itself.

A report (`wiretape report --format html`) contains more: `<script … id="report">` is `{format: 1, start, files}`, with
`{file, summary, severities}` of each recording.  Their documents are `data`, `data-2`, `data-3` and so on; `f` in the
fragment of the URL selects one by its number.  `/api/recording` then has `report`, and more fields of findings and
rules: `report/html_format.py` makes them.  If `report.radius` is not null, the document contains only events at most
that far from a finding: `rows?…` contains rows `{row: "omitted", first, last}` in place of the other events.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wiretape.recording import Exchange, Recording
from wiretape_inspect import timeline_text
from wiretape_inspect.page.bundle import exported_page
from wiretape_inspect.page_export.page_document import PageContent, document_parts

__all__ = ["PageContent", "document_parts", "export_page", "page_parts"]


def export_page(
    recording: Recording,
    exchanges: Sequence[Exchange] | None = None,
    findings: Sequence[Mapping[str, Any]] | None = None,
) -> Iterator[bytes]:
    """Yield the page with a recording, or with some of its exchanges, in parts.

    `findings` are those of the live checks with their evidence; without them, the page shows no evidence.
    """
    chosen = list(recording.exchanges()) if exchanges is None else list(exchanges)
    shown = {} if findings is None else {"findings": findings}
    content = PageContent(recording, chosen, timeline_text.stored_findings(recording), overrides=shown)
    return page_parts([("data", document_parts(content))])


def page_parts(documents: Iterable[tuple[str, Iterator[bytes]]]) -> Iterator[bytes]:
    """Yield the page with JSON documents, each in an element with the given id."""
    page = exported_page()
    yield page.before.encode()
    for name, parts in documents:
        yield f'<script type="application/json" id="{name}">'.encode()
        for part in parts:
            # In JSON, `<` occurs only in strings; in the page, it could end the script element.
            yield part.replace(b"<", b"\\u003c")
        yield b"</script>\n"
    yield page.after.encode()
