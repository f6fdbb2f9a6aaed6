"""The view model: what the terminal prints and the page draws, made in one place, as plain data.

`rows`, `folding`: a stream as rows.  `pages`: rows N to M of a long one.  `filters`, `matching`: which of them.
`state`: what a client knew at an event.  `resume`: two connections side by side.  `calls`: tool calls and runs.
`documents`: all of it as JSON.
"""
