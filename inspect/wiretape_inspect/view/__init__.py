"""The view model: what the terminal prints and the page draws, made in one place.

`rows`, `making`, `folder`, `folding`: a stream as rows.
`filter_grammar`, `filter_match`: which rows to show.
`work`: runs and tool calls.  `state`: what a client knew at an event.
`resume`: two connections side by side.  `overview`: the time axis, runs and tool calls of a stream.

All of it is frozen dataclasses, whose fields say shapes and units; `wiretape_inspect.jsonlines.dump` writes them as
JSON, in which a row also says what it is (`jsonlines.row`, `jsonlines.closely`, `jsonlines.joined`).  Times are
nanoseconds since the recording began, offsets are bytes of the decoded body.
"""
