"""The debugger: an HTTP server with the page and an API that returns the recording's data.  It only reads.

All JSON is written by `dump_json`.  Times are nanoseconds since the recording began.  Query parameters in
brackets are optional.

**Documents** (`GET /api/…`, one JSON document)

`recording`
    `{file, path, upstream, tool, started, ended_ns, live, replay, other, position, exchanges: [listed…],
    findings: [Finding…], rules, vocabularies}`.  `path` is the file as the command line names it.
    `live` is true while a recorder writes to the file; a recorder that was killed leaves `ended_ns` null and `live`
    false.  `listed` is `timeline_json.listed_exchange`.  `replay` is null
    or `{url}`, and `other` is null or the name of the recording that this one is compared with.  `position` is where
    `live` continues.  `vocabularies` has `Vocabulary.document` of each contract by its name.  `rules` is
    `timeline_json.rules_of` the findings.
`overview?exchange=N`
    `view.accumulated_state.Overview`.
`longest-silence`
    `{exchange, since_ns, until_ns, event}`: the longest time before an event of a stream, and that event; null if there
    are no events.
`event?exchange=N&event=M`
    `timeline_json.detail_document`, with `text` instead of `base64` if the bytes are UTF-8.
`findings?exchange=N[&event=M]`
    The findings about an event, or about the exchange as a whole, each as `report.evidence.evidence_document`.
`test?exchange=N&event=M`
    `{code}`: a pytest test about the bytes of an event.
`cut?exchange=N&start=A&event=M`
    `{start, end, chunks, text}`, or `base64` instead of `text`: the bytes of an unfinished message, which begin at
    offset A, after message M begins.
`bodies?exchange=N`
    `event_export.bodies`: `{request, response}`, each null, `{text}`, `{base64}`, or `{omitted}` if it is too large.

**Lines** (JSON lines, sent while they are made; if reading fails midway, the last line is `{"error": {"message"}}`)

`rows?exchange=N[&filter=F][&most=K]`
    `timeline_json.exchange_json_lines`: the head, then the rows of a stream that match the filter.  Nothing if no row
    matches.  `most` is the largest number of lines.
`matches?filter=F`
    `{exchange, matches}` for each exchange that matches: the number of its events, or 1 if only other rows match.
`events?exchange=N&first=A&last=B`
    A row of kind `event` for each message from A to B, including deltas.
`resume?first=A&second=B`
    `timeline_json.reconnection_json_lines`.

`differences`
    The lines of `wiretape diff --json`, each with `previews` of its events, if the recording is compared with another
    one; `other/event` is `event` of that one.

**Files**: `GET /api/export?format=F[&exchange=N]`, what `wiretape export --format F` writes.

**Live updates**: `GET /api/live[?exchange=N][&after=POSITION][&rows=K]`, an event stream of what changes until the
recording is closed.  POSITION comes from `recording` or is the id of an earlier message; without it, the stream
reports everything from the beginning.  `data` is one JSON object.  Every message has an id, so that a browser that
loses the connection continues by itself.

`exchange`
    `timeline_json.listed_exchange` of any exchange that began, changed or ended.
`finding`
    `{finding, rule}`: a finding about any exchange, and the member of `rules` for its code (null if sent before).
    A finding about exchange N precedes the rows that it changes.
`findings-replaced`
    `{}`: the recorder has corrected the findings of an existing recording.  All findings so far are void; those that
    hold now follow.
`rows`
    `{exchange, first, rows: [row…], settled}`: from number `first` on (0 is the first row; the head is not counted),
    these are now the rows of exchange N, and there are no more.  The first `settled` of all rows no longer change,
    except by a finding; a run of deltas or a pause that grows is sent again.  A row `end` is sent only when the
    exchange has ended.  K is the number of rows (an earlier `settled`) of this exchange that the page has.
    For an open exchange, `live` alone sends all rows, and `rows` is not needed.
`closed`
    `{ended_ns}`: the recording was closed; null if the recorder disappeared.  This is the last message: the page
    should close the connection, or the browser reconnects.

A browser keeps at most six connections to a host, over all its tabs, and a stream occupies one of them: a page should
close its streams while it is hidden.

**Replay** (if one is attached): `GET /api/replay/{state,breakpoints,events}`,
`POST /api/replay/{pause,resume,step,seek,breakpoints,reset,wait}` and `DELETE /api/replay/breakpoints` are forwarded
to `/_wiretape/…` of the replay (docs/control.md).  502 if it cannot be reached, 404 if none is attached.

**Access**: every request needs the cookie that the URL with the token sets (401), a loopback `Host`, and no `Origin`
other than the page's own (403); requests that change something also need the header `X-Wiretape-Debug: 1`.
Errors are `{"error": {"message"}}`: 400 for a parameter, 404 for an exchange or event that does not exist, 500 if the
recording cannot be read.

An exported page contains answers of this API: see `page_export`.
"""
