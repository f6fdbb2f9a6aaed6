"""The view model that the terminal and the page share.

`timeline_rows`, `delta_folding`: a stream as rows.  `filters`: filters.
`entity_spans`: entities such as runs, and a stream at a glance.  `client_state_at_event`: what a client knows after an
event.

Everything is plain dataclasses that `wiretape_inspect.timeline_json` writes as JSON.  Times are nanoseconds since the
recording began; offsets count bytes of the decoded body.
"""
