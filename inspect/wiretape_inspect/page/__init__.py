"""The page of the debugger: JavaScript modules, style and HTML.

`bundle` makes the page, `wiretape_inspect.timeline_json` the JSON that it reads.  `main.js` starts the page, and
`app.js` puts its parts together.  `api_client.js` asks the API of the debugger or, in an exported file, the answers
that this contains (`recorded_answers.js`).
"""
