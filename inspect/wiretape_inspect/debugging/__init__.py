"""The server behind the debugger's page, and the same data in a file.

The page asks for everything that it shows; what is recorded is put into words and rows here, and never changed.
JSON is written by `jsonlines.dump`; times are nanoseconds since the recording began, keys are those of `--json`.

**Documents** (`GET /api/…`, JSON; parameters in the query, all of them needed unless they stand in brackets)

`recording`
    `{file, upstream, tool, started, ended_ns, live, replay, place, exchanges: [head…], findings: [Finding…], rules}`.
    `live` says whether somebody is recording to it just now: a proxy that was killed leaves `ended_ns` null, and
    `live` false.  `replay` is null or `{url}`.  `place` is where `live` goes on.  `rules` has, for each code that
    is among the findings, `{name, severity, side, clause, about}`.
`overview?exchange=N`
    `view.overview.Overview`.
`event?exchange=N&event=M`
    `jsonlines.closely`.
`cut?exchange=N&start=A&event=M`
    `{start, end, chunks, base64}`: the bytes of a message that was cut off, which begin at offset A, behind the start
    of message M.
`bodies?exchange=N`
    `exporting.bodies`: `{request, response}`, each null, `{text}` or `{base64}`, or `{omitted}`: it is too large.

**Lines** (JSON lines, sent as they are made; `{"error": {"message"}}` is the last one where reading failed midway)

`rows?exchange=N[&filter=F]`
    `jsonlines.rows`: the head, then every row of a stream that the filter matches, in order.  Nothing if none does.
`events?exchange=N&first=A&last=B`
    A row of kind `event` for each message from A to B, deltas too.
`resume?first=A&second=B`
    `jsonlines.joined`.

**Live**: `GET /api/live[?exchange=N][&after=PLACE][&rows=K]`, an event stream that tells what changes, until the
recording is closed.  PLACE is what `recording` or an earlier message told; without one everything is told from the
beginning on.  `data` is one JSON object; every message has an id, by which a browser that lost the connection goes
on by itself.

`exchange`
    A head, of any exchange: when it began, changed or ended.
`finding`
    `{finding, rule}`: a Finding about any exchange, and what `rules` says of its code (null where it was told).
    That of exchange N comes before the rows that it changes.
`rows`
    `{exchange, first, rows: [row…], sure}`: the rows of exchange N from number `first` on (0 is the first row, the head
    is not among them) are these now, and there are no others behind them.  The first `sure` of all do not change any
    more, unless something is found about them; a run of deltas or a pause that grows is told again each time.  There
    is no `end` row before the exchange has ended.  K is how many rows (the `sure` of an earlier message) the page
    has of this exchange and need not be told.  For an exchange that is open, `live` alone tells all rows; `rows` is
    not needed.
`closed`
    `{ended_ns}`: the recording was closed; `ended_ns` is null where whoever recorded is gone without a word.  The last
    message: whoever listens should close the connection, or a browser asks again.

A browser keeps six connections to a host, over all its tabs, and a stream takes one of them: a page should close its
streams while it is hidden.

**Replay** (where one is attached): `GET /api/replay/{state,breakpoints,events}`,
`POST /api/replay/{pause,resume,step,seek,breakpoints,reset,wait}` and `DELETE /api/replay/breakpoints` are passed on to
`/_wiretape/…` of the replay (docs/control.md), which answers.  502 where it cannot be reached, 404 where none is.

**Access**: everything needs the cookie that opening the address with its token sets (401), a loopback `Host`, an
`Origin` of our own or none (403); what changes something needs the header `X-Wiretape-Debug: 1` too.
Errors are `{"error": {"message"}}`: 400 for a parameter, 404 for an exchange or event that is not there, 500 for a
recording that cannot be read (any more).

**In a file** (`wiretape export --format html`) the page holds one JSON document in
`<script type="application/json" id="data">`, with `<` written as `\\u003c`:

`{format: 1, start, recording, rows, cuts, bodies, overviews, resumes, details, states}`

`recording` is the document of that name (`live` false, `replay` and `place` null); `rows` has for each exchange, by its
number, the objects of `rows?exchange=N`, `cuts` of streams a list of what `cut` answers for each row `cut` (with `text`
in place of `base64` where the bytes are UTF-8), `bodies` what `bodies?exchange=N` answers of those that are no streams;
`overviews` is of streams; `resumes` has, by `A:B`, the objects of
`resume?first=A&second=B` for each stream and the one before it in its session.

`details` has for each stream a list of blocks `{first, last, gzip}`: the numbers of the first and last message, and,
gzip and base64, a JSON array of an object for each message: what `event` answers, without `state`, and with `text` in
place of `base64` where the bytes are UTF-8 (`base64` is then the base64 of `text` in UTF-8).  The keys of its row are
among them, so that blocks also give the rows of the messages in a run.

A report (`wiretape report --format html`) holds more.  `<script … id="report">` is `{format: 1, start, files}`:
where to begin, and of each recording `{file, summary, severities}`.  Their documents are `data`, `data-2`, `data-3`
and so on; `f` in the address names one by its number.  In each, `recording` has `report`: `{file, summary,
severities, more, doubts, known, selected, events, exchanges, radius}`.  `more` counts by code the findings that are
not listed, `known` those that a baseline knows; `radius` is null, or how far from a finding messages are held: then
`rows` have rows `{row: "omitted", first, last}` for the others, and `details`, `states`, `overviews` and `resumes`
are without them.  `recording.findings` have `{expected, actual, request, asked, end, evidence, see}` beyond the keys
of a Finding, and `recording.rules` has every rule, with `{verdict, exercised, inconclusive, because, findings,
known, selected, basis, url}`.

`states` has for each stream, gzip and base64, `{exchange, connections, texts: [text…], steps: [[event, changes]…]}`.
The state just after message E is what all steps up to E, in order, say; the first is that before message 1:

    stateAt(states, event) → {exchange, event, text, reasoning, open_calls, runs, session, last_event_id,
                              last_sequence, connections}       (`time_ns` is that of the message)

Changes may have these keys, each with the new value, and what is not there stays as it was:

`session`, `last_event_id`, `last_sequence`
    The values themselves.
`text`, `reasoning`
    `[index, units, characters, final]`: the first `units` UTF-16 units of `texts[index]`; `{text, characters, final}`
    of the state has the last 100,000 characters of that, and the other two as they are.  Null: `{"", 0, false}`.
`runs`, `calls`
    A list of Spans, of each only `id` and what changed: they are kept by id, in the order in which they first came.
    `open_calls` are the calls whose `ended` is null.
"""
