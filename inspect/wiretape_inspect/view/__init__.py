"""The view model that the terminal and the page share.

`timeline_rows`, `delta_folding`: a stream as rows.  `filters`: filters.
`accumulated_state`: entities such as runs, a stream at a glance, and what a client knows after an event.

Everything is plain dataclasses that `wiretape_inspect.timeline_json` writes as JSON.  Times are nanoseconds since the
recording began; offsets count bytes of the decoded body.
"""
