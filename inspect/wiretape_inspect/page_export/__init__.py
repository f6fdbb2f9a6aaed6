"""Page export: the debugger's page as one file that contains its recording.

The page contains one JSON document in `<script type="application/json" id="data">`, with `<` written as `\\u003c`:

`{format: 1, start, recording, rows, cuts, bodies, overviews, resumes, details, states}`

`start`
    The fragment of the URL with which the page opens.
`recording`
    The document of that name (see `wiretape_inspect.debugger`); `live` is false, `replay` and `position` are null, and
    `longest_silence` is what `longest-silence` returns.
`rows`
    By exchange, the objects of `rows?exchange=N`.
`cuts`
    By stream, what `cut` returns for each row `cut`; `text` replaces `base64` if the bytes are UTF-8.
`bodies`
    By exchange that is not a stream, what `bodies` returns.
`overviews`
    By stream, what `overview` returns.
`resumes`
    By `A:B`, the objects of `resume?first=A&second=B`, for each stream and the one before it in its session.
`details`
    By stream, a list of blocks `{first, last, gzip}`: the numbers of the first and last message and, as gzip in base64,
    a JSON array with an object for each message: what `event` returns, without `state`, and with `text` in place of
    `base64` if the bytes are UTF-8.  It includes the fields of the message's row.
`states`
    By stream, as gzip in base64, `{exchange, connections, texts: [text…], steps: [[event, changes]…]}`.

The state just after message E results from all steps up to E; the first step is the state before message 1.
A step contains only what changes:

`session`, `cursor`, `last_sequence`
    The new values.
`text`, `reasoning`
    `[index, units, characters, final]`: the first `units` UTF-16 code units of `texts[index]`; the `text` of the state
    is the last 100,000 characters of that.  Null: an empty text.
`runs`, `calls`
    A list of spans with `id` and the fields that changed, in the order of their first messages.
    `open_calls` of the state are the calls whose `ended` is null.

A report (`wiretape report --format html`) contains more: `<script … id="report">` is `{format: 1, start, files}`, with
`{file, summary, severities}` of each recording.  Their documents are `data`, `data-2`, `data-3` and so on; `f` in the
fragment of the URL selects one by its number.  `recording` then has `report`, and more fields of findings and rules:
`report/html_format.py` makes them.  If `report.radius` is not null, the document contains only events at most that far
from a finding: `rows` contains rows `{row: "omitted", first, last}` in place of the other events.
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
    start: str = "",
    findings: Sequence[Mapping[str, Any]] | None = None,
) -> Iterator[bytes]:
    """Yield the page with a recording, or with some of its exchanges, in parts.

    `findings` are those of the live checks with their evidence; without them, the page shows no evidence.
    """
    chosen = list(recording.exchanges()) if exchanges is None else list(exchanges)
    shown = {} if findings is None else {"findings": findings}
    content = PageContent(recording, chosen, timeline_text.stored_findings(recording), overrides=shown)
    return page_parts([("data", document_parts(content, start))])


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
